"""Statements that write to tensors: allocations, results of instructions, updates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, cast

import libcst as cst

from nki.language.advice.beta1.results import RESULTS
from nki.migrate import subscripts
from nki.migrate.calls import keyword, nki_value
from nki.migrate.expressions import Expressions
from nki.migrate.facts import Tensor, shape_text
from nki.migrate.indices import Bounds, Mask, bounds_of
from nki.migrate.operands import allocated, matmul_operands, variables_in
from nki.migrate.polynomial import largest, smallest
from nki.migrate.report import Report
from nki.migrate.subscripts import NotCarriedOverError, has_slices
from nki.migrate.syntax.code import code_of, expression, one_line, statement
from nki.migrate.syntax.names import names_in
from nki.migrate.types import ELEMENTWISE, OPERATORS, REDUCTIONS, Types, arguments, dtype_text


class Writes:
    """Rewrites statements that write; ``types`` is what the names of the function hold."""

    def _rewriter(self, bounds: Bounds | None = None, top: cst.Call | None = None) -> Expressions:
        rewriter = Expressions(self.types, self.taken, bounds, top)
        rewriter.grid = self.grid
        return rewriter

    def _expression(
        self, node: cst.BaseExpression, before: list[cst.BaseStatement], bounds: Bounds | None = None
    ) -> cst.BaseExpression:
        rewriter = self._rewriter(bounds)
        new = cast("cst.BaseExpression", node.visit(rewriter))
        before += rewriter.before
        self.report.notes += rewriter.notes
        self._no_index_left(new)
        return new

    def _no_index_left(self, node: cst.CSTNode) -> None:
        values = self.types.values
        left = sorted(name for name in names_in(node) & values.keys() if getattr(values[name], "name", "") != name)
        if left:
            raise NotCarriedOverError(f"the index `{left[0]}` is used as a value")

    def _forget(self, name: str) -> None:
        self.types.values.pop(name, None)
        self.types.tensors.pop(name, None)
        self.types.choices.pop(name, None)
        self.forget_tests(name)
        self.types.forget()

    def forget_tests(self, name: str) -> None:
        """Drop the choices that depend on the old value of a name."""

    def _result(self, name: str, function: str, call: cst.Call) -> list[cst.BaseStatement]:
        """``name = nisa.function(…)``: a tile, and the instruction that writes it."""
        mask = mask_of(call) if id(call) not in self.types.unmasked else None
        rewriter = self._rewriter(top=call)
        bounds = rewriter.mask_bounds(mask) if mask is not None else Bounds()
        plain = not bounds.lower and not bounds.upper and not bounds.conditions
        new = cast("cst.Call", call.visit(rewriter))
        own = name
        if any(name in names_in(arg.value) for arg in call.args):  # the old tile is an operand of the new one
            name = rewriter.fresh(f"{name}_new")
        made = rewriter.computed(name, function, call, new)
        self.report.notes += rewriter.notes
        if not plain and len(made) == 2 and function != "memset":
            again = self._rewriter(bounds, call)
            tensor = self.types.tensor(call)
            variables = [*variables_in(self.types, call), *bounds.lower, *bounds.upper]
            target = _cut(name, tensor, bounds, variables)
            new = cast("cst.Call", call.visit(again))
            text = one_line(cast(Any, made[0]).body[0].value)
            made[0] = statement(f"{name} = {_zeroed(text)}")
            made[1] = guarded(again.written(target, function, call, new), bounds)
        self._no_index_left(cst.Module(cast(Any, made)))
        if name != own:
            made.append(statement(f"{own} = {name}"))
        return [*rewriter.before, *made]

    def _created(self, name: str, function: str, call: cst.Call) -> list[cst.BaseStatement]:
        """``name = nl.ndarray(…)``: block dimensions become lists; the memory is one of today's."""
        tensor = self.types.created(call, function)
        new = cast("cst.Call", self._expression(call, []))
        args: list[cst.Arg] = []
        order = ("shape", "fill_value", "dtype", "buffer") if function == "full" else ("shape", "dtype", "buffer")
        for position, (before, arg) in enumerate(zip(call.args, new.args, strict=False)):
            parameter = before.keyword.value if before.keyword is not None else order[position]
            if parameter == "buffer":
                arg = arg.with_changes(value=expression(self._buffer(name, before.value)))
            elif parameter == "dtype" and (self.names.full(before.value) or isinstance(before.value, cst.SimpleString)):
                arg = arg.with_changes(value=expression(dtype_text(self.names, before.value)))
            elif parameter == "shape" and tensor is not None and tensor.blocks and tensor.buffer != "hbm":
                arg = arg.with_changes(value=expression(shape_text(tensor.shape or ())))
            if parameter != "name" or not (tensor is not None and tensor.blocks):
                args.append(arg)
        if function == "rand" and len(args) == 1:
            args.append(cst.Arg(expression("nl.float32")))
        at, indices = allocated(self.types, call, function, tensor)
        args += [keyword("address", expression(at))] if at else []
        if at is None:
            self.report.notes.append(f"`{name}`: the compiler chooses the address; nl.ndarray(address=…) fixes one")
        func: cst.BaseExpression = new.func
        if function == "zeros" and name in self.accumulators and tensor is not None and tensor.buffer == "psum":
            func = expression("nl.ndarray")
        if function == "ndarray" and name in self.filled and tensor is not None and tensor.buffer == "sbuf":
            func = expression("nl.zeros")
        text = code_of(new.with_changes(args=args, func=func))
        if tensor is not None and tensor.buffer != "hbm":
            for index, size in zip(reversed(indices), reversed(tensor.blocks), strict=True):
                text = f"[{text} for {index} in range({size.text})]"
        return [statement(f"{name} = {text}")]

    def _buffer(self, name: str, node: cst.BaseExpression) -> str:
        """The memory of an allocation."""
        text = self.names.full(called(node)) or one_line(node)
        kind = next((k for k in ("psum", "sbuf", "shared_hbm", "private_hbm", "hbm") if k in text), "")
        if kind == "hbm":
            kind = "shared_hbm" if name in self.returned else "private_hbm"
        return f"nl.{kind}" if kind else text

    def _masked(self, name: str, function: str, call: cst.Call, mask: cst.BaseExpression) -> list[cst.BaseStatement]:
        """``name = nl.function(…, mask=…)``: what the mask leaves out is zero, where anything could be there."""
        rewriter = self._rewriter()
        bounds = rewriter.mask_bounds(mask)
        inside = variables_in(self.types, call.with_changes(args=[a for a in call.args if a.value is not mask]))
        whole = self._rewriter(Bounds(), call)
        if function in ELEMENTWISE | set(OPERATORS.values()) and not inside:
            new = cast("cst.Call", call.visit(whole))
            return [*whole.before, statement(f"{name} = {code_of(self._unmasked(new))}")]
        variables = [v for v in dict.fromkeys([*inside, *bounds.lower, *bounds.upper]) if bounds.restricts(v)]
        ndim = max((v.ndim for v in [*inside, *bounds.lower, *bounds.upper]), default=2)
        cut_call = self._rewriter(bounds, call)
        new = cast("cst.Call", call.visit(cut_call))
        if function in REDUCTIONS:
            variables = [v for v in variables if v.axis == -ndim]
        if not variables and not bounds.conditions:
            return [*cut_call.before, statement(f"{name} = {code_of(self._unmasked(new))}")]
        tensor = self.types.tensor(call)
        if tensor is None or not tensor.shape_text or not tensor.dtype:
            raise NotCarriedOverError(
                f"the shape of the result of `nl.{function}`: add --arg, so that the kernel can run"
            )
        if tensor.observed:
            self.report.notes.append(
                f"`{name}` has the shape {tensor.shape_text} of the run; other arguments may need another"
            )
        made = f"{name} = nl.zeros({tensor.shape_text}, dtype={tensor.dtype}, buffer=nl.sbuf)"
        target = _cut(name, tensor, bounds, variables)
        if function in REDUCTIONS and variables:
            target = f"{name}[{largest(bounds.start(variables[0]))}:{smallest(bounds.stop(variables[0]))}]"
        if function == "load":
            source = one_line(arguments(new, ("src",))["src"].value)
            write: cst.BaseStatement = statement(f"nisa.dma_copy(dst={target}, src={source})")
        else:
            place = target if target.endswith("]") else f"{target}[...]"
            write = statement(f"{place} = {one_line(self._unmasked(new))}")
        return [*cut_call.before, statement(made), guarded(write, bounds)]

    def _unmasked(self, call: cst.Call) -> cst.Call:
        return call.with_changes(args=[a for a in call.args if a.keyword is None or a.keyword.value != "mask"])

    def _bounds(self, value: cst.BaseExpression) -> Bounds:
        mask = mask_of(value) if isinstance(value, cst.Call) else None
        return self._rewriter().mask_bounds(mask) if mask is not None else Bounds()

    def _several(self, value: cst.BaseExpression) -> Mask | None:
        """The mask of a call, if conditions of several axes are in it."""
        mask = mask_of(value)
        if (
            mask is None
            or id(value) in self.types.unmasked
            or one_line(mask) == "None"
            or self.types.facts.others.get(id(mask)) == "none"
        ):
            return None
        found = self.types.evaluator.mask(mask)
        return found if found is not None and bounds_of(found).several else None

    def _written(self, target: cst.Subscript, value: cst.BaseExpression) -> list[cst.BaseStatement]:
        """``t[…] = value``."""
        bounds = self._bounds(value)
        before: list[cst.BaseStatement] = []
        place = self._place(target, before, bounds)
        to = one_line(place)
        if not isinstance(place, cst.Subscript) and not isinstance(value, cst.Call):
            to_assign = f"{to}[...]"
        else:
            to_assign = to if isinstance(place, cst.Subscript) else f"{to}[...]"
        owner = self.types.tensor(target.value)
        if isinstance(value, cst.Call):
            full = self.names.full(value.func)
            package, _, function = full.rpartition(".")
            if package == "nki.isa" and function in RESULTS:
                rewriter = self._rewriter(bounds, value)
                new = cast("cst.Call", value.visit(rewriter))
                extra = "accumulate=False" if function == "nc_matmul" else ""
                if self._by_psum(function, value, owner, target.value):
                    name = rewriter.fresh(f"{function}_result")
                    made = rewriter.computed(name, function, value, new)
                    copy = statement(f"nisa.tensor_copy(dst={plain(to)}, src={name})")
                    return [*before, *rewriter.before, *made, guarded(copy, bounds)]
                line = rewriter.written(plain(to), function, value, new, extra)
                self._no_index_left(line)
                return [*before, *rewriter.before, guarded(line, bounds)]
            if package == "nki.language":
                return [*before, *self._function_into(function, value, plain(to), to_assign, bounds, owner)]
        new_value = self._expression(value, before, bounds)
        text = one_line(new_value)
        if self.types.tensor(value) is None and self._is_scalar(value):
            return [*before, statement(f"nisa.memset(dst={plain(to)}, value={self._number(text, owner)})")]
        text = self._repeated(text, value, target)
        return [*before, statement(f"{to_assign} = {text}")]

    def _by_psum(self, function: str, call: cst.Call, owner: Tensor | None, place: cst.BaseExpression) -> bool:
        """True for a result of the Tensor engine that goes to SBUF: today it goes to PSUM, and a copy from there.

        So does a transposed tile whose destination has another dtype.
        """
        if owner is None or function not in ("nc_matmul", "nc_transpose"):
            return False
        result, seen, tile = self.types.tensor(call), self.types.facts.seen(call), self.types.facts.seen(place)
        if function == "nc_transpose" and seen is not None and tile is not None and seen.dtype != tile.dtype:
            return True
        if owner.buffer != "sbuf":
            return False
        if function == "nc_transpose":
            named = arguments(call, ("data",))
            if "engine" in named:
                return "vector" not in one_line(named["engine"].value)
            sizes = [size.constant for size in result.shape] if result is not None and result.shape is not None else []
            sizes = list(seen.shape) if seen is not None else sizes
            return not sizes or not all(size is not None and size <= 32 for size in sizes)
        return True

    def _place(self, target: cst.BaseExpression, before: list[cst.BaseStatement], bounds: Bounds) -> cst.BaseExpression:
        """The place that is written: all of a tile only as far as ``bounds`` let its axes through."""
        place = self._expression(target, before, bounds)
        variables = [*bounds.lower, *bounds.upper]
        if (
            not variables
            or has_slices(target)
            or (isinstance(target, cst.Subscript) and variables_in(self.types, target))
        ):
            return place
        return expression(_cut(plain(one_line(place)), self.types.tensor(target), bounds, variables))

    def _is_scalar(self, value: cst.BaseExpression) -> bool:
        if isinstance(value, cst.Integer | cst.Float | cst.UnaryOperation):
            return True
        return self.types.facts.others.get(id(value)) == "number" or "nki" in self.names.full(value)

    def _number(self, text: str, owner: Tensor | None) -> str:
        """A number of the kind that the tile holds."""
        text = _PLAIN_NUMBER.sub(r"\1", text)
        whole = owner is not None and "int" in owner.dtype
        if whole and text.endswith(".0"):
            return text.removesuffix(".0")
        if owner is not None and not whole and "float" in owner.dtype and text.lstrip("-").isdigit():
            return f"{text}.0"
        return text

    def _repeated(self, text: str, value: cst.BaseExpression, target: cst.BaseExpression) -> str:
        """A value that is repeated to the shape of its destination."""
        source, place = self.types.tensor(value), self.types.tensor(target)
        if source is None or place is None or source.shape is None or place.shape is None:
            return text
        if len(source.shape) == len(place.shape) and any(
            a.constant == 1 != b.constant for a, b in zip(source.shape, place.shape, strict=True)
        ):
            return f"nl.broadcast_to({text}, {shape_text(place.shape)})"
        return text

    def _function_into(
        self, function: str, call: cst.Call, to: str, to_assign: str, bounds: Bounds, owner: Tensor | None
    ) -> list[cst.BaseStatement]:
        """``t[…] = nl.function(…)``."""
        rewriter = self._rewriter(bounds, call)
        new = cast("cst.BaseExpression", call.visit(rewriter))
        self._no_index_left(new)
        if function == "load":
            source = one_line(arguments(cast("cst.Call", new), ("src",))["src"].value)
            return [*rewriter.before, guarded(statement(f"nisa.dma_copy(dst={to}, src={source})"), bounds)]
        if function == "matmul" and owner is not None and owner.buffer == "psum":
            x, y, _ = matmul_operands(cast("cst.Call", new))
            text = f"nisa.nc_matmul(dst={to}, stationary={x}, moving={y}, accumulate=False)"
            return [*rewriter.before, guarded(statement(text), bounds)]
        if function in ("zeros", "full", "ones"):
            named = arguments(cast("cst.Call", new), ("shape", "fill_value"))
            number = {"zeros": "0", "ones": "1"}.get(function) or one_line(named["fill_value"].value)
            text = f"nisa.memset(dst={to}, value={self._number(number, owner)})"
            return [*rewriter.before, guarded(statement(text), bounds)]
        new = self._unmasked(new) if isinstance(new, cst.Call) else new
        if isinstance(new, cst.Call) and function not in ("matmul", "transpose", "broadcast_to", "expand_dims", "ds"):
            dtype = owner.dtype if owner is not None and owner.dtype else f"{to.split('[')[0]}.dtype"
            kept = [a for a in new.args if a.keyword is None or a.keyword.value != "dtype"]
            new = new.with_changes(args=[*kept, cst.Arg(expression(dtype), keyword=cst.Name("dtype"), equal=_EQUAL)])
        text = self._repeated(one_line(new), call, expression(to_assign))
        return [*rewriter.before, guarded(statement(f"{to_assign} = {text}"), bounds)]

    def _update(
        self,
        target: cst.BaseExpression,
        operator: cst.BaseAugOp,
        value: cst.BaseExpression,
        small: cst.BaseSmallStatement,
    ) -> list[cst.BaseStatement]:
        """``t += value``."""
        value = self.products.get(id(value), value)
        if isinstance(target, cst.Name) and target.value in self.types.values:
            found = self.types.value(cst.BinaryOperation(target, _BINARY[type(operator)](), value))
            if found is None:
                raise NotCarriedOverError(f"`{one_line(target)}` changes as an index")
            self.types.values[target.value] = found
            return []
        tensor = self.types.tensor(target)
        before: list[cst.BaseStatement] = []
        if tensor is None and not (isinstance(target, cst.Subscript) and self._is_tile(target)):
            new = self._expression(value, before)
            return [*before, line_of(cast(Any, small).with_changes(value=new))]
        bounds = self._bounds(value)
        to = plain(one_line(self._place(target, before, bounds)))
        product = self._product(value, bounds, before) if isinstance(operator, cst.AddAssign) else None
        if product is not None and (tensor is None or tensor.buffer == "psum"):
            text = f"nisa.nc_matmul(dst={to}, {product})"
            return [*before, guarded(statement(text), bounds)]
        new = self._expression(value, before, bounds)
        name = OPERATORS[type(operator)]
        text = one_line(new)
        if self.types.tensor(value) is None:
            line = f"nisa.tensor_scalar(dst={to}, data={to}, op0=nl.{name}, operand0={text})"
        else:
            text = self._repeated(text, value, target)
            source = self.types.tensor(value)
            if tensor is not None and source is not None and tensor.buffer == source.buffer == "psum":
                text = f"nl.copy({text})"
            line = f"nisa.tensor_tensor(dst={to}, data1={to}, data2={text}, op=nl.{name})"
        return [*before, guarded(statement(line), bounds)]

    def _loop_reduced(self, target: cst.BaseExpression, call: cst.Call) -> list[cst.BaseStatement]:
        """``t = nl.loop_reduce(x, op, loop_indices=[i, j])``: a copy in the first round, then ``op`` of both."""
        named = arguments(call, ("x", "op", "loop_indices"))
        indices = named["loop_indices"].value
        tile = self.types.tensor(target)
        if tile is None or "mask" in named or not isinstance(indices, cst.List | cst.Tuple):
            raise NotCarriedOverError("`nl.loop_reduce`: accumulate in one tensor, and clear it in the first round")
        before: list[cst.BaseStatement] = []
        to = plain(one_line(self._expression(target, before)))
        source = one_line(self._expression(named["x"].value, before))
        op = one_line(nki_value(self.names, named["op"].value))
        first = " and ".join(f"{one_line(element.value)} == 0" for element in indices.elements)
        text = (
            f"if {first}:\n    nisa.tensor_copy(dst={to}, src={source})\n"
            f"else:\n    nisa.tensor_tensor(dst={to}, data1={to}, data2={source}, op={op})\n"
        )
        return [*before, statement(text)]

    def _product(self, value: cst.BaseExpression, bounds: Bounds, before: list[cst.BaseStatement]) -> str | None:
        """The operands of a matmul that is added to a tile in PSUM."""
        if not isinstance(value, cst.Call):
            return None
        full = self.names.full(value.func)
        if full not in ("nki.language.matmul", "nki.isa.nc_matmul"):
            return None
        rewriter = self._rewriter(bounds, value)
        new = cast("cst.Call", value.visit(rewriter))
        before += rewriter.before
        self._no_index_left(self._unmasked(new))
        if full == "nki.language.matmul":
            x, y, _ = matmul_operands(new)
            return f"stationary={x}, moving={y}"
        line = rewriter.written("dst_", "nc_matmul", value, new)
        return one_line(cast(Any, line.body[0]).value).removeprefix("nisa.nc_matmul(dst=dst_, ").removesuffix(")")

    def _call(self, call: cst.Call, small: cst.Expr) -> list[cst.BaseStatement]:
        """A call as a statement."""
        full = self.names.full(call.func)
        package, _, function = full.rpartition(".")
        today = any(arg.keyword is not None and arg.keyword.value == "dst" for arg in call.args)
        if package == "nki.isa" and function in RESULTS and not today:  # only its other effects are wanted
            return self._result(self._rewriter().fresh(f"{function}_result"), function, call)
        bounds = self._bounds(call)
        rewriter = self._rewriter(bounds, call)
        new = cast("cst.BaseExpression", call.visit(rewriter))
        self._no_index_left(new)
        line = line_of(small.with_changes(value=new))
        return [*rewriter.before, guarded(line, bounds)]

    def _is_tile(self, target: cst.Subscript) -> bool:
        """True if a subscript that is assigned to names a part of a tensor and not an item of a list."""
        if self.types.tensor(target.value) is not None:
            return True
        if self.types.facts.others.get(id(target.value)) in ("list", "dict"):
            return False
        for element in target.slice:
            if isinstance(element.slice, cst.Slice):
                return True
            inner = cast("cst.Index", element.slice).value
            if isinstance(inner, cst.Ellipsis) or self.types.value(inner) is not None:
                return True
        return False

    def __init__(self, types: Types, report: Report, taken: set[str]) -> None:
        self.types = types
        self.names = types.names
        self.report = report
        self.taken = taken
        self.imports: list[cst.BaseSmallStatement] = []
        self.grid = types.grid
        self.filled: set[str] = set()
        """Tiles of which masked statements write a part."""
        self.returned: set[str] = set()
        self.accumulators: set[str] = set()
        """Tiles in PSUM that only accumulate matmuls, so that a clearing write before them is none of today's."""
        self.products: dict[int, cst.Call] = {}
        """Products that have a name only in the line that adds them, by that use of the name."""
        self.moved: set[int] = set()
        """Lines of those products, and allocations that nothing uses, which go."""
        self.restarted: dict[str, str] = {}
        """Numbers that begin each round of the loops around anew, and the variables that hold their first values."""
        self.functions: Any = None
        """The rewriting of functions inside of this one."""


_EQUAL: Final = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_BINARY: Final[dict[type[cst.CSTNode], type[cst.BaseBinaryOp]]] = {
    cst.AddAssign: cst.Add, cst.SubtractAssign: cst.Subtract, cst.MultiplyAssign: cst.Multiply,
}  # fmt: skip


_PLAIN_NUMBER: Final = re.compile(r"n[pl]\.(?:float|int|uint|bfloat)\w*\((-?[\d.e+-]+)\)")
"""A number with a dtype of NumPy's around it, which the tile has anyway."""


def line_of(small: cst.BaseSmallStatement) -> cst.SimpleStatementLine:
    """A line of one statement."""
    return cst.SimpleStatementLine([small])


def mask_of(node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The argument ``mask`` of a call."""
    if not isinstance(node, cst.Call):
        return None
    return next((arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == "mask"), None)


def plain(text: str) -> str:
    """``t`` for ``t[...]``."""
    return text.removesuffix("[...]")


def _zeroed(text: str) -> str:
    return text.replace("nl.ndarray(", "nl.zeros(", 1)


def guarded(line: cst.BaseStatement, bounds: Bounds) -> cst.BaseStatement:
    """The statement behind the conditions of a mask that no index tile is in."""
    if not bounds.conditions:
        return line
    test = " and ".join(dict.fromkeys(bounds.conditions))
    return cst.If(expression(test), cst.IndentedBlock([line]))


def called(node: cst.BaseExpression) -> cst.BaseExpression:
    """The function of a call; other expressions as they are."""
    return node.func if isinstance(node, cst.Call) else node


def _cut(name: str, tensor: Tensor | None, bounds: Bounds, variables: Sequence[Any]) -> str:
    return subscripts.cut(name, tensor, bounds, list(variables))


__all__ = ["Writes", "called", "guarded", "line_of", "mask_of", "plain"]
