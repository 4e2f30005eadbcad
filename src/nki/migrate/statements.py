"""Statements of a Beta 1 kernel, rewritten one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import libcst as cst

from nki.migrate.code import code_of, expression, one_line, statement
from nki.migrate.expressions import RESULTS, Expressions, matmul_operands, variables_in
from nki.migrate.facts import Tensor, shape_text
from nki.migrate.indices import Bounds, Grid, names_in
from nki.migrate.polynomial import Polynomial, largest, smallest
from nki.migrate.subscripts import NotCarriedOverError
from nki.migrate.types import CREATION, ELEMENTWISE, OPERATORS, REDUCTIONS, Types, arguments, dtype_text

MARK: Final = "# TODO(nki-migrate):"


class Report:
    """What the rewriting of one file has to say: lines of the old file, and constructs that were left."""

    def __init__(self) -> None:
        self.left: list[str] = []
        self.notes: list[str] = []

    def todo(self, message: str) -> None:
        self.left.append(message)


class Statements:
    """Rewrites the body of one function; ``types`` is what its names hold."""

    def __init__(self, types: Types, report: Report, taken: set[str]) -> None:
        self.types = types
        self.names = types.names
        self.report = report
        self.taken = taken
        self.imports: list[cst.BaseSmallStatement] = []
        self.grid: dict[int, str] = {}
        self.filled: set[str] = set()
        """Tiles of which masked statements write a part."""
        self.returned: set[str] = set()
        self.accumulators: set[str] = set()
        """Tiles in PSUM that only accumulate matmuls, so that a clearing write before them is none of today's."""
        self.functions: Any = None
        """The rewriting of functions inside of this one."""

    # -- blocks --------------------------------------------------------------------------------------------------

    def block(self, body: Iterable[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """The statements of a block; comments of statements that go stay with the next one."""
        result: list[cst.BaseStatement] = []
        kept: list[cst.EmptyLine] = []
        for one in body:
            lines: Sequence[cst.EmptyLine] = getattr(one, "leading_lines", ())
            new = self._statement(one)
            if not new:
                kept += [line for line in lines if line.comment is not None]
                continue
            first = new[0]
            if hasattr(first, "leading_lines"):
                marks = [line for line in first.leading_lines if line.comment and MARK in line.comment.value]
                new[0] = cast(Any, first).with_changes(leading_lines=[*kept, *lines, *marks])
                kept = []
            result += new
        return result

    def _statement(self, one: cst.BaseStatement) -> list[cst.BaseStatement]:
        try:
            match one:
                case cst.SimpleStatementLine():
                    return self._line(one)
                case cst.FunctionDef():
                    return [self.functions(one, self.types)]
                case cst.With():
                    return self._with(one)
                case _:
                    return [self._compound(one)]
        except NotCarriedOverError as why:
            return [marked(one, self._noted(one, str(why)))]

    def _noted(self, one: cst.CSTNode, message: str) -> str:
        self.report.todo(message)
        for target in _targets(one):
            self.types.values.pop(target, None)
        return message

    def _compound(self, one: Any) -> cst.BaseStatement:
        changes: dict[str, Any] = {}
        before: list[cst.BaseStatement] = []
        for name in ("test", "iter"):
            if hasattr(one, name):
                changes[name] = self._expression(getattr(one, name), before)
        if before:
            raise NotCarriedOverError("instructions in the head of a loop or branch")
        if isinstance(one, cst.For):
            for target in names_in(one.target):
                self._forget(target)
        if isinstance(getattr(one, "body", None), cst.IndentedBlock):
            body = self.block(one.body.body)
            changes["body"] = one.body.with_changes(body=body or [statement("pass")])
        elif isinstance(getattr(one, "body", None), cst.SimpleStatementSuite):
            lines = self.block([cst.SimpleStatementLine([small]) for small in one.body.body])
            changes["body"] = cst.IndentedBlock(lines or [statement("pass")])
        orelse = getattr(one, "orelse", None)
        if isinstance(orelse, cst.If | cst.Else):
            changes["orelse"] = self._compound(orelse)
        return one.with_changes(**changes)

    def _with(self, one: cst.With) -> list[cst.BaseStatement]:
        full = self.names.full(_called(one.items[0].item))
        if full == "nki.compiler.no_reorder":
            item = one.items[0].with_changes(item=expression("nl.no_reorder()"))
            return [self._compound(one.with_changes(items=[item]))]
        if full.startswith("nki.compiler.") and isinstance(one.body, cst.IndentedBlock):
            return self.block(one.body.body)
        return [self._compound(one)]

    # -- lines ---------------------------------------------------------------------------------------------------

    def _line(self, line: cst.SimpleStatementLine) -> list[cst.BaseStatement]:
        result: list[cst.BaseStatement] = []
        for small in line.body:
            small = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) if len(line.body) > 1 else small
            made = self._small(small)
            if made is None:
                made = [line.with_changes(body=[small], leading_lines=[])]
            result += made
        if result and isinstance(result[-1], cst.SimpleStatementLine):
            result[-1] = result[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
        return result

    def _small(self, small: cst.BaseSmallStatement) -> list[cst.BaseStatement] | None:
        match small:
            case cst.Import() | cst.ImportFrom():
                self.imports.append(small)
                return []
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                return self._assign(target, value, small)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                return self._annotated(target, value, small)
            case cst.AugAssign(target=target, operator=operator, value=value):
                return self._update(target, operator, value, small)
            case cst.Expr(value=cst.Call() as call):
                return self._call(call, small)
            case cst.Return(value=cst.BaseExpression() as value) | cst.Expr(value=value):
                before: list[cst.BaseStatement] = []
                new = self._expression(value, before)
                return [*before, _line_of(small.with_changes(value=new))]
            case cst.Assert():
                return [_line_of(small.with_changes(test=self._expression(small.test, [])))]
            case cst.Assign(value=value):
                before = []
                new = self._expression(value, before)
                return [*before, _line_of(small.with_changes(value=new))]
            case _:
                return None

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
        self._no_index_left(new)
        return new

    def _no_index_left(self, node: cst.CSTNode) -> None:
        left = sorted(names_in(node) & self.types.values.keys())
        if left:
            raise NotCarriedOverError(f"the index `{left[0]}` is used as a value")

    def _forget(self, name: str) -> None:
        self.types.values.pop(name, None)
        self.types.tensors.pop(name, None)
        self.types.forget()

    # -- assignments ---------------------------------------------------------------------------------------------

    def _assign(
        self, target: cst.BaseExpression, value: cst.BaseExpression, small: cst.BaseSmallStatement
    ) -> list[cst.BaseStatement]:
        if self._indices(target, value) or self._allocator(target, value):
            return []
        if isinstance(target, cst.Name):
            tensor = self.types.tensor(value)
            new = self._named(target.value, value, small)
            self._forget(target.value)
            if tensor is not None:
                seen = self.types.facts.seen(target)
                shape = tensor.shape
                if shape is None and seen is not None:
                    shape = tuple(Polynomial.of(n) for n in seen.shape)
                self.types.tensors[target.value] = Tensor(shape, tensor.dtype, tensor.buffer, tensor.blocks)
            return new
        if isinstance(target, cst.Tuple | cst.List):
            self._unpacked(target, value)
        if isinstance(target, cst.Subscript) and self._is_tile(target):
            return self._written(target, value)
        before: list[cst.BaseStatement] = []
        new_value = self._expression(value, before)
        return [*before, _line_of(cast(Any, small).with_changes(value=new_value))]

    def _annotated(
        self, target: cst.BaseExpression, value: cst.BaseExpression, small: cst.AnnAssign
    ) -> list[cst.BaseStatement]:
        """``x: nt.tensor[rows, columns] = …``: the annotation is the shape."""
        annotation = small.annotation.annotation
        if isinstance(annotation, cst.Subscript) and self.names.full(annotation.value).endswith(".tensor"):
            sizes = [e.slice.value for e in annotation.slice if isinstance(e.slice, cst.Index)]
            if len(sizes) == len(annotation.slice):
                self.types.declare(value, tuple(self.types.evaluator.polynomial(size) for size in sizes))
        return self._assign(target, value, small)

    def _indices(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """Notes the indices and masks that names stand for; False if the value is neither."""
        if isinstance(target, cst.Tuple | cst.List):
            names = [element.value.value for element in target.elements if isinstance(element.value, cst.Name)]
            if len(names) != len(target.elements):
                return False
            if isinstance(value, cst.Tuple) and len(value.elements) == len(names):
                values = [self.types.value(element.value) for element in value.elements]
            else:
                grid = self.types.value(value)
                values = list(grid.indices) if isinstance(grid, Grid) and len(grid.indices) == len(names) else []
            if not values or any(one is None for one in values):
                return False
            for name, one in zip(names, values, strict=True):
                self._forget(name)
                self.types.values[name] = cast(Any, one)
            return True
        found = self.types.value(value) if isinstance(target, cst.Name) else None
        if found is None:
            return False
        self._forget(cast(cst.Name, target).value)
        self.types.values[cast(cst.Name, target).value] = found
        return True

    def _allocator(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """True for a name of one of Beta 1's allocators, which rewritten code does not use."""
        full = self.names.full(_called(value))
        if full == "nki.trace" and isinstance(value, cst.Attribute | cst.Name) and isinstance(target, cst.Name):
            self.names.bound[target.value] = full
            return True
        if not full.startswith("nki.compiler.") or not isinstance(target, cst.Name):
            return False
        memory = next((name for name in ("psum", "sbuf") if name in full), "")
        self.names.bound[target.value] = f"nki.compiler.{memory}" if isinstance(value, cst.Call) else full
        return True

    def _unpacked(self, target: cst.Tuple | cst.List, value: cst.BaseExpression) -> None:
        """``rows, columns = x.shape`` names the sizes of x."""
        names = [element.value.value for element in target.elements if isinstance(element.value, cst.Name)]
        for name in names:
            self._forget(name)
        match value:
            case cst.Attribute(value=cst.Name(value=owner), attr=cst.Name(value="shape")) if len(names) == len(
                target.elements
            ):
                known = self.types.tensors.get(owner) or Tensor(buffer="hbm", dtype=f"{owner}.dtype")
                if known.shape is None or all(size.text.startswith(f"{owner}.") for size in known.shape):
                    shape = tuple(Polynomial.of(name) for name in names)
                    self.types.tensors[owner] = Tensor(shape, known.dtype, known.buffer, known.blocks)
                    self.types.forget()
            case _:
                pass

    def _is_tile(self, target: cst.Subscript) -> bool:
        """True if a subscript that is assigned to names a part of a tensor and not an item of a list."""
        if self.types.tensor(target.value) is not None:
            return True
        if self.types.facts.others.get(id(target.value)) in ("list", "dict"):
            return False
        for element in target.slice:
            if isinstance(element.slice, cst.Slice):
                return True
            if isinstance(element.slice.value, cst.Ellipsis) or self.types.value(element.slice.value) is not None:
                return True
        return False

    def _named(self, name: str, value: cst.BaseExpression, small: cst.BaseSmallStatement) -> list[cst.BaseStatement]:
        """``name = value``."""
        if isinstance(value, cst.Call):
            full = self.names.full(value.func)
            package, _, function = full.rpartition(".")
            if package == "nki.isa" and (function in RESULTS or function == "memset"):
                return self._result(name, function, value)
            if package == "nki.language" and function in CREATION:
                return self._created(name, function, value)
            mask = _mask_of(value)
            if package == "nki.language" and mask is not None and one_line(mask) != "None":
                return self._masked(name, function, value, mask)
        before: list[cst.BaseStatement] = []
        new = self._expression(value, before)
        return [*before, _line_of(cast(Any, small).with_changes(value=new))]

    def _result(self, name: str, function: str, call: cst.Call) -> list[cst.BaseStatement]:
        """``name = nisa.function(…)``: a tile, and the instruction that writes it."""
        mask = _mask_of(call)
        rewriter = self._rewriter(top=call)
        bounds = rewriter.mask_bounds(mask) if mask is not None else Bounds()
        plain = not bounds.lower and not bounds.upper and not bounds.conditions
        new = cast("cst.Call", call.visit(rewriter))
        made = rewriter.computed(name, function, call, new)
        if not plain and len(made) == 2 and function != "memset":
            again = self._rewriter(bounds, call)
            tensor = self.types.tensor(call)
            variables = [*variables_in(self.types, call), *bounds.lower, *bounds.upper]
            target = _cut(name, tensor, bounds, variables)
            new = cast("cst.Call", call.visit(again))
            text = one_line(cast(Any, made[0]).body[0].value)
            made[0] = statement(f"{name} = {_zeroed(text)}")
            made[1] = _guarded(again.written(target, function, call, new), bounds)
        self._no_index_left(cst.Module(made))
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
            elif parameter == "dtype" and self.names.full(before.value):
                arg = arg.with_changes(value=expression(dtype_text(self.names, before.value)))
            elif parameter == "dtype" and isinstance(before.value, cst.SimpleString):
                arg = arg.with_changes(value=expression(dtype_text(self.names, before.value)))
            elif parameter == "shape" and tensor is not None and tensor.blocks and tensor.buffer != "hbm":
                arg = arg.with_changes(value=expression(shape_text(tensor.shape or ())))
            if parameter != "name" or not (tensor is not None and tensor.blocks):
                args.append(arg)
        if function == "rand" and len(args) == 1:
            args.append(cst.Arg(expression("nl.float32")))
        func: cst.BaseExpression = new.func
        if function == "zeros" and name in self.accumulators and tensor is not None and tensor.buffer == "psum":
            func = expression("nl.ndarray")
        if function == "ndarray" and name in self.filled and tensor is not None and tensor.buffer == "sbuf":
            func = expression("nl.zeros")
        text = code_of(new.with_changes(args=args, func=func))
        if tensor is not None and tensor.buffer != "hbm":
            for size in reversed(tensor.blocks):
                text = f"[{text} for _ in range({size.text})]"
        return [statement(f"{name} = {text}")]

    def _buffer(self, name: str, node: cst.BaseExpression) -> str:
        """The memory of an allocation; addresses of Beta 1's allocators are left to the compiler."""
        full = self.names.full(_called(node))
        text = full or one_line(node)
        if text.endswith(("mod_alloc", ".alloc")) or "nki.compiler" in text:
            self.report.notes.append(f"`{name}`: the compiler chooses the address; nl.ndarray(address=…) fixes one")
        kind = next((k for k in ("psum", "sbuf", "shared_hbm", "private_hbm", "hbm") if k in text), "")
        if kind == "hbm":
            kind = "shared_hbm" if name in self.returned else "private_hbm"
        return f"nl.{kind}" if kind else text

    def _masked(
        self, name: str, function: str, call: cst.Call, mask: cst.BaseExpression
    ) -> list[cst.BaseStatement]:
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
            raise NotCarriedOverError(f"the shape of the result of `nl.{function}`: add --arg, so that the kernel can run")
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
        return [*cut_call.before, statement(made), _guarded(write, bounds)]

    def _unmasked(self, call: cst.Call) -> cst.Call:
        return call.with_changes(args=[a for a in call.args if a.keyword is None or a.keyword.value != "mask"])

    # -- writes into tensors -------------------------------------------------------------------------------------

    def _bounds(self, value: cst.BaseExpression) -> Bounds:
        mask = _mask_of(value) if isinstance(value, cst.Call) else None
        return self._rewriter().mask_bounds(mask) if mask is not None else Bounds()

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
            if package == "nki.isa" and (function in RESULTS or function == "memset"):
                rewriter = self._rewriter(bounds, value)
                new = cast("cst.Call", value.visit(rewriter))
                extra = "accumulate=False" if function == "nc_matmul" else ""
                if self._by_psum(function, value, owner):
                    name = rewriter.fresh(f"{function}_result")
                    made = rewriter.computed(name, function, value, new)
                    copy = statement(f"nisa.tensor_copy(dst={_plain(to)}, src={name})")
                    return [*before, *rewriter.before, *made, _guarded(copy, bounds)]
                line = rewriter.written(_plain(to), function, value, new, extra)
                self._no_index_left(line)
                return [*before, *rewriter.before, _guarded(line, bounds)]
            if package == "nki.language":
                return [*before, *self._function_into(function, value, _plain(to), to_assign, bounds, owner)]
        new_value = self._expression(value, before, bounds)
        text = one_line(new_value)
        if self.types.tensor(value) is None and self._is_scalar(value):
            return [*before, statement(f"nisa.memset(dst={_plain(to)}, value={self._number(text, owner)})")]
        text = self._repeated(text, value, target)
        return [*before, statement(f"{to_assign} = {text}")]

    def _by_psum(self, function: str, call: cst.Call, owner: Tensor | None) -> bool:
        """True for a result of the Tensor engine that goes to SBUF: today it goes to PSUM, and a copy from there."""
        if owner is None or owner.buffer != "sbuf" or function not in ("nc_matmul", "nc_transpose"):
            return False
        result = self.types.tensor(call)
        if function == "nc_transpose":
            named = arguments(call, ("data",))
            if "engine" in named:
                return "vector" not in one_line(named["engine"].value)
            sizes = [size.constant for size in result.shape] if result is not None and result.shape is not None else []
            return not sizes or not all(size is not None and size <= 32 for size in sizes)
        return True

    def _place(
        self, target: cst.BaseExpression, before: list[cst.BaseStatement], bounds: Bounds
    ) -> cst.BaseExpression:
        """What is written: all of a tile only as far as ``bounds`` let its axes through."""
        place = self._expression(target, before, bounds)
        variables = [*bounds.lower, *bounds.upper]
        if not variables or (isinstance(target, cst.Subscript) and variables_in(self.types, target)):
            return place
        return expression(_cut(_plain(one_line(place)), self.types.tensor(target), bounds, variables))

    def _is_scalar(self, value: cst.BaseExpression) -> bool:
        if isinstance(value, cst.Integer | cst.Float | cst.UnaryOperation):
            return True
        return self.types.facts.others.get(id(value)) == "number" or "nki" in self.names.full(value)

    def _number(self, text: str, owner: Tensor | None) -> str:
        """A number of the kind that the tile holds."""
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
            return [*rewriter.before, _guarded(statement(f"nisa.dma_copy(dst={to}, src={source})"), bounds)]
        if function == "matmul" and owner is not None and owner.buffer == "psum":
            x, y, _ = matmul_operands(cast("cst.Call", new))
            text = f"nisa.nc_matmul(dst={to}, stationary={x}, moving={y}, accumulate=False)"
            return [*rewriter.before, _guarded(statement(text), bounds)]
        if function in ("zeros", "full", "ones"):
            named = arguments(cast("cst.Call", new), ("shape", "fill_value"))
            number = {"zeros": "0", "ones": "1"}.get(function) or one_line(named["fill_value"].value)
            text = f"nisa.memset(dst={to}, value={self._number(number, owner)})"
            return [*rewriter.before, _guarded(statement(text), bounds)]
        new = self._unmasked(cast("cst.Call", new)) if isinstance(new, cst.Call) else new
        if isinstance(new, cst.Call) and function not in ("matmul", "transpose", "broadcast_to", "expand_dims", "ds"):
            dtype = owner.dtype if owner is not None and owner.dtype else f"{to.split('[')[0]}.dtype"
            kept = [a for a in new.args if a.keyword is None or a.keyword.value != "dtype"]
            new = new.with_changes(args=[*kept, cst.Arg(expression(dtype), keyword=cst.Name("dtype"), equal=_EQUAL)])
        text = self._repeated(one_line(new), call, _parsed(to_assign))
        return [*rewriter.before, _guarded(statement(f"{to_assign} = {text}"), bounds)]

    def _update(
        self,
        target: cst.BaseExpression,
        operator: cst.BaseAugOp,
        value: cst.BaseExpression,
        small: cst.BaseSmallStatement,
    ) -> list[cst.BaseStatement]:
        """``t += value``."""
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
            return [*before, _line_of(cast(Any, small).with_changes(value=new))]
        bounds = self._bounds(value)
        to = _plain(one_line(self._place(target, before, bounds)))
        product = self._product(value, bounds, before) if isinstance(operator, cst.AddAssign) else None
        if product is not None and (tensor is None or tensor.buffer == "psum"):
            text = f"nisa.nc_matmul(dst={to}, {product})"
            return [*before, _guarded(statement(text), bounds)]
        new = self._expression(value, before, bounds)
        name = OPERATORS[type(operator)]
        text = one_line(new)
        if self.types.tensor(value) is None:
            line = f"nisa.tensor_scalar(dst={to}, data={to}, op0=nl.{name}, operand0={text})"
        else:
            text = self._repeated(text, value, target)
            line = f"nisa.tensor_tensor(dst={to}, data1={to}, data2={text}, op=nl.{name})"
        return [*before, _guarded(statement(line), bounds)]

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
        bounds = self._bounds(call)
        rewriter = self._rewriter(bounds, call)
        new = cast("cst.BaseExpression", call.visit(rewriter))
        full = self.names.full(call.func)
        package, _, function = full.rpartition(".")
        if package == "nki.isa" and function in RESULTS and isinstance(new, cst.Call):
            new = self._unmasked(new)
        self._no_index_left(new)
        line = _line_of(small.with_changes(value=new))
        return [*rewriter.before, _guarded(line, bounds)]


_EQUAL: Final = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
_BINARY: Final[dict[type[cst.CSTNode], type[cst.BaseBinaryOp]]] = {
    cst.AddAssign: cst.Add, cst.SubtractAssign: cst.Subtract, cst.MultiplyAssign: cst.Multiply,
}  # fmt: skip


def _called(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.func if isinstance(node, cst.Call) else node


def _line_of(small: cst.BaseSmallStatement) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([small])


def _mask_of(node: cst.BaseExpression) -> cst.BaseExpression | None:
    if not isinstance(node, cst.Call):
        return None
    return next((arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == "mask"), None)


def _plain(text: str) -> str:
    """``t`` for ``t[...]``."""
    return text.removesuffix("[...]")


def _parsed(text: str) -> cst.BaseExpression:
    return expression(text)


def _cut(name: str, tensor: Tensor | None, bounds: Bounds, variables: Sequence[Any]) -> str:
    from nki.migrate.subscripts import cut  # noqa: PLC0415

    return cut(name, tensor, bounds, list(variables))


def _zeroed(text: str) -> str:
    return text.replace("nl.ndarray(", "nl.zeros(", 1)


def _guarded(line: cst.BaseStatement, bounds: Bounds) -> cst.BaseStatement:
    """The statement behind the conditions of a mask that no index tile is in."""
    if not bounds.conditions:
        return line
    test = " and ".join(dict.fromkeys(bounds.conditions))
    return cst.If(expression(test), cst.IndentedBlock([line]))


def _targets(one: cst.CSTNode) -> set[str]:
    found: set[str] = set()
    if isinstance(one, cst.SimpleStatementLine):
        for small in one.body:
            if isinstance(small, cst.Assign):
                for target in small.targets:
                    if isinstance(target.target, cst.Name):
                        found.add(target.target.value)
    return found


def marked(one: cst.BaseStatement, message: str) -> cst.BaseStatement:
    """The statement with a comment above it that says what is left to do."""
    line = cst.EmptyLine(comment=cst.Comment(f"{MARK} {message}"))
    lines = [*getattr(one, "leading_lines", ()), line]
    return cast(Any, one).with_changes(leading_lines=lines)


__all__ = ["MARK", "Report", "Statements", "marked"]
