"""Statements that write to tensors: allocations, results of instructions, updates."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Final

from nki.base.python_operators import FUNCTION_OF
from nki.frontend.site import keys_of
from nki.language.beta1_rewriting.calls import (
    Argument,
    NewCall,
    NotCarriedOverError,
    cleaned,
    code_in_place,
    function_of,
    nki_value,
)
from nki.language.beta1_rewriting.expressions import Expressions
from nki.language.beta1_rewriting.facts import Tensor, is_repeated, shape_text
from nki.language.beta1_rewriting.indices import Bounds, Mask, bounds_of
from nki.language.beta1_rewriting.operands import allocated, is_number, variables_in
from nki.language.beta1_rewriting.report import Report
from nki.language.beta1_rewriting.subscripts import cut, has_slices
from nki.language.beta1_rewriting.tables import ELEMENTWISE, PARAMETERS, REDUCTIONS
from nki.language.beta1_rewriting.types import Types, arguments, creation_order, dtype_text
from nki.source_text.lines import Line
from nki.source_text.names import called
from nki.source_text.polynomial import largest, smallest
from nki.source_text.source import code_of, expression, in_one_line, names_in, one_line, parsed, replaced

_PLAIN_NUMBER: Final = re.compile(r"n[pl]\.(?:float|int|uint|bfloat)\w*\((-?[\d.e+-]+)\)")
"""A number with a dtype of NumPy's around it, which the tile has anyway."""
_NO_DTYPE: Final = ("matmul", "transpose", "broadcast_to", "expand_dims", "ds")
"""Functions with results that are copied with the dtype that they have."""


class Writes(Expressions):
    """Rewrites statements that write."""

    def __init__(self, types: Types, report: Report, taken: set[str]) -> None:
        super().__init__(types, report, taken)
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.filled: set[str] = set()
        """Tiles with parts that masked statements write."""
        self.returned: set[str] = set()
        self.accumulators: set[str] = set()
        """Tiles in PSUM that only accumulate matmuls, so that a clearing write before them is none of today's."""
        self.products: dict[int, ast.Call] = {}
        """Products that have a name only in the line that adds them, by that use of the name."""
        self.moved: set[int] = set()
        """Lines of those products, and allocations that nothing uses, which go."""
        self.restarted: dict[str, str] = {}
        """Numbers that begin each round of the loops around anew, and the variables that hold their first values."""

    def no_index_left(self, text: str) -> None:
        """Raise :class:`NotCarriedOverError` if new code names an index tile or mask, which it does not have."""
        values = self.types.values
        if any(name in text for name in values):
            names = names_in(*parsed(text.strip()))
            left = sorted(name for name in names & values.keys() if getattr(values[name], "name", "") != name)
            if left:
                raise NotCarriedOverError(f"the index `{left[0]}` is used as a value")

    # -- new tensors ---------------------------------------------------------------------------------------------

    def _result(self, name: str, function: str, call: ast.Call) -> list[Line]:
        """``name = nisa.function(…)``: a tile, and the instruction that writes it."""
        mask = mask_of(call) if id(call) not in self.types.unmasked else None
        bounds = self.mask_bounds(mask) if mask is not None else Bounds()
        with self.below(Bounds(), call):
            new = self.call(call)
            own = name
            if any(name in names_in(arg.node) for arg in new.args):  # the old tile is an operand of the new one
                name = self.fresh(f"{name}_new")
            made = self.computed(name, function, call, new)
        if (bounds.restrict or bounds.conditions) and len(made) == 2 and function != "memset":
            variables = [*variables_in(self.types, call), *bounds.lower, *bounds.upper]
            target = cut(name, self.types.tensor(call), bounds, variables)
            with self.below(bounds, call):
                written = self.written(target, function, call, self.call(call))
            made = [Line(made[0].text.replace("nl.ndarray(", "nl.zeros(", 1)), guarded(written, bounds)]
        return made if name == own else [*made, Line(f"{own} = {name}")]

    def _created(self, call: ast.Call, function: str, name: str = "", before: str = "return") -> list[Line]:
        """``name = nl.ndarray(…)`` or a result without a name: block dimensions become lists; the memory is of today.

        ``before`` is the code in front of the allocation.
        """
        tensor = self.types.created(call, function)
        new = cleaned(self.names, self.call(call), function_of("nki.language", function))
        order = creation_order(function)
        args: list[Argument] = []
        for position, arg in enumerate(new.args):
            parameter, node = arg.name or order[position], arg.node
            if node is None or (parameter == "name" and tensor.blocks):
                continue
            if parameter == "buffer":
                arg = replace(arg, text=self._buffer(name, node))
            elif parameter == "dtype" and (self.names.full(node) or isinstance(node, ast.Constant)):
                arg = replace(arg, text=dtype_text(self.names, node))
            elif parameter == "shape" and tensor.blocks:
                arg = replace(arg, text=shape_text(tensor.shape or ()))
            args.append(arg)
        if function == "rand" and len(args) == 1:
            args.append(Argument("", "nl.float32"))
        at, indices = allocated(self.types, call, function, tensor)
        args += [Argument("address", at)] if at else []
        if at is None:
            self.report.notes.append(
                f"`{name or 'the result'}`: the compiler chooses the address; nl.ndarray(address=…) fixes one"
            )
        func = new.func
        if function == "zeros" and name in self.accumulators and tensor.buffer == "psum":
            func = "nl.ndarray"
        if function == "ndarray" and name in self.filled and tensor.buffer == "sbuf":
            func = "nl.zeros"
        text = code_in_place(call, NewCall(func, tuple(args)))
        for index, size in zip(reversed(indices), reversed(tensor.blocks), strict=True):
            text = f"[{in_one_line(text)} for {index} in range({size.text})]"
        return [Line(f"{before} {text}")]

    def _buffer(self, name: str, node: ast.expr) -> str:
        """The memory of an allocation."""
        text = self.names.full(called(node)) or one_line(node)
        kind = next((k for k in ("psum", "sbuf", "shared_hbm", "private_hbm", "hbm") if k in text), "")
        if kind == "hbm":
            kind = "shared_hbm" if not name or name in self.returned else "private_hbm"
        return f"nl.{kind}" if kind else text

    def _masked(self, name: str, function: str, call: ast.Call, mask: ast.expr) -> list[Line]:
        """``name = nl.function(…, mask=…)``: what the mask leaves out is zero, where anything could be there."""
        bounds = self.mask_bounds(mask)
        inside = variables_in(self.types, *call.args, *(k.value for k in call.keywords if k.value is not mask))
        if function in ELEMENTWISE | set(FUNCTION_OF.values()) and not inside:
            with self.below(Bounds(), call):
                return [Line(f"{name} = {_unmasked(self.code(call))}")]
        variables = [v for v in dict.fromkeys([*inside, *bounds.lower, *bounds.upper]) if bounds.restricts(v)]
        ndim = max((v.ndim for v in [*inside, *bounds.lower, *bounds.upper]), default=2)
        with self.below(bounds, call):
            new = _unmasked(self.code(call))
        if function in REDUCTIONS:
            variables = [v for v in variables if v.axis == -ndim]
        if self.types.facts.assumed or not (variables or bounds.conditions):
            return [guarded(Line(f"{name} = {new}"), bounds)]
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
        target = cut(name, tensor, bounds, variables)
        if function in REDUCTIONS and variables:
            target = f"{name}[{largest(bounds.start(variables[0]))}:{smallest(bounds.stop(variables[0]))}]"
        if function == "load":
            write = f"nisa.dma_copy(dst={target}, src={_argument(new, 'src')})"
        else:
            write = f"{target if target.endswith(']') else f'{target}[...]'} = {new}"
        return [Line(made), guarded(Line(write), bounds)]

    # -- masks ---------------------------------------------------------------------------------------------------

    def _bounds_of(self, value: ast.expr) -> Bounds:
        mask = mask_of(value)
        return self.mask_bounds(mask) if mask is not None else Bounds()

    def _several(self, value: ast.expr) -> Mask | None:
        """The mask of a call, if conditions of several axes are in it."""
        mask = mask_of(value)
        if mask is None or id(value) in self.types.unmasked or self.types.facts.kind(mask) == "none":
            return None
        found = self.types.evaluator.mask(mask)
        return found if found is not None and bounds_of(found).several else None

    # -- parts of tensors ----------------------------------------------------------------------------------------

    def _written(self, target: ast.Subscript, value: ast.expr) -> list[Line]:
        """``t[…] = value``."""
        bounds = self._bounds_of(value)
        to = in_one_line(self._place(target, bounds))
        to_assign = to if isinstance(expression(to), ast.Subscript) else f"{to}[...]"
        owner = self.types.tensor(target.value)
        if isinstance(value, ast.Call):
            package, _, function = self.names.full(value.func).rpartition(".")
            if self.types.result_of(value):
                return self._result_into(function, value, plain(to), target, bounds, owner)
            if package == "nki.language":
                return self._function_into(function, value, plain(to), to_assign, bounds, owner)
        text = in_one_line(self.code_below(bounds, value))
        if self.types.tensor(value) is None and self._is_scalar(value):
            return [Line(f"nisa.memset(dst={plain(to)}, value={self._number(text, owner)})")]
        return [Line(f"{to_assign} = {self._repeated(text, value, target)}")]

    def _result_into(
        self, function: str, call: ast.Call, to: str, target: ast.Subscript, bounds: Bounds, owner: Tensor | None
    ) -> list[Line]:
        """``t[…] = nisa.function(…)``."""
        with self.below(bounds, call):
            new = self.call(call)
            if self._by_psum(function, call, owner, target.value):
                name = self.fresh(f"{function}_result")
                made = self.computed(name, function, call, new)
                return [*made, guarded(Line(f"nisa.tensor_copy(dst={to}, src={name})"), bounds)]
            extra = [Argument("accumulate", "False")] if function == "nc_matmul" else []
            return [guarded(self.written(to, function, call, new, extra), bounds)]

    def _by_psum(self, function: str, call: ast.Call, owner: Tensor | None, place: ast.expr) -> bool:
        """True for a result of the Tensor engine that goes to SBUF: today it goes to PSUM, and a copy from there.

        So does a transposed tile for a destination of another dtype.
        """
        if owner is None or function not in ("nc_matmul", "nc_transpose"):
            return False
        result, seen, tile = self.types.tensor(call), self.types.facts.seen(call), self.types.facts.seen(place)
        if function == "nc_transpose" and seen is not None and tile is not None and seen.dtype != tile.dtype:
            return True
        if owner.buffer != "sbuf":
            return False
        if function == "nc_transpose":
            named = arguments(call, PARAMETERS[function])
            if "engine" in named:
                return "vector" not in one_line(named["engine"])
            sizes = [size.constant for size in result.shape] if result is not None and result.shape is not None else []
            sizes = list(seen.shape) if seen is not None else sizes
            return not sizes or not all(size is not None and size <= 32 for size in sizes)
        return True

    def _place(self, target: ast.expr, bounds: Bounds) -> str:
        """The place that is written: all of a tile only within the ``bounds`` of its axes."""
        place = self.code_below(bounds, target)
        variables = [*bounds.lower, *bounds.upper]
        indexed = isinstance(target, ast.Subscript) and variables_in(self.types, target)
        if not variables or has_slices(target) or indexed:
            return place
        return cut(plain(in_one_line(place)), self.types.tensor(target), bounds, variables)

    def _is_scalar(self, value: ast.expr) -> bool:
        if is_number(value) or isinstance(value, ast.UnaryOp):
            return True
        return self.types.facts.kind(value) == "number" or "nki" in self.names.full(value)

    def _number(self, text: str, owner: Tensor | None) -> str:
        """A number of the kind that the tile holds."""
        text = _PLAIN_NUMBER.sub(r"\1", text)
        whole = owner is not None and "int" in owner.dtype
        if whole and text.endswith(".0"):
            return text.removesuffix(".0")
        if owner is not None and not whole and "float" in owner.dtype and text.lstrip("-").isdigit():
            return f"{text}.0"
        return text

    def _repeated(self, text: str, value: ast.expr, target: ast.expr) -> str:
        """A value that is repeated to the shape of its destination."""
        source, place = self.types.tensor(value), self.types.tensor(target)
        if source is None or place is None or source.shape is None or place.shape is None:
            return text
        if len(source.shape) == len(place.shape) and is_repeated(source.shape, place.shape):
            return f"nl.broadcast_to({text}, {shape_text(place.shape)})"
        return text

    def _function_into(
        self, function: str, call: ast.Call, to: str, to_assign: str, bounds: Bounds, owner: Tensor | None
    ) -> list[Line]:
        """``t[…] = nl.function(…)``."""
        with self.below(bounds, call):
            new = _unmasked(self.code(call))
        if function == "load":
            text = f"nisa.dma_copy(dst={to}, src={_argument(new, 'src')})"
        elif function == "matmul" and owner is not None and owner.buffer == "psum":
            x, y = _product_of(new)
            text = f"nisa.nc_matmul(dst={to}, stationary={x}, moving={y}, accumulate=False)"
        elif function in ("zeros", "full", "ones"):
            number = {"zeros": "0", "ones": "1"}.get(function) or _argument(new, "shape", "fill_value")
            text = f"nisa.memset(dst={to}, value={self._number(number, owner)})"
        else:
            node = expression(new)
            if isinstance(node, ast.Call) and function not in _NO_DTYPE:
                dtype = owner.dtype if owner is not None and owner.dtype else f"{to.split('[')[0]}.dtype"
                kept = [code_of(arg) for arg in (*node.args, *(k for k in node.keywords if k.arg != "dtype"))]
                new = f"{code_of(node.func)}({', '.join([*kept, f'dtype={dtype}'])})"
            text = f"{to_assign} = {self._repeated(new, call, expression(to_assign))}"
        return [guarded(Line(text), bounds)]

    def _update(self, node: ast.AugAssign) -> list[Line]:
        """``t += value``."""
        target, value = node.target, self.products.get(id(node.value), node.value)
        if isinstance(target, ast.Name) and target.id in self.types.values:
            found = self.types.value(ast.BinOp(target, node.op, value))
            if found is None:
                raise NotCarriedOverError(f"`{target.id}` changes as an index")
            self.types.values[target.id] = found
            return []
        tensor = self.types.tensor(target)
        accumulates = isinstance(value, ast.Call) and self.names.full(value.func) == "nki.isa.nc_matmul"
        if tensor is None and not accumulates and not (isinstance(target, ast.Subscript) and self._is_tile(target)):
            return self.changed(node, value)
        bounds = self._bounds_of(value)
        to = plain(in_one_line(self._place(target, bounds)))
        product = self._product(value, bounds) if isinstance(node.op, ast.Add) else None
        if product is not None and (tensor is None or tensor.buffer == "psum"):
            return [guarded(Line(f"nisa.nc_matmul(dst={to}, {product})"), bounds)]
        text = in_one_line(self.code_below(bounds, value))
        name = FUNCTION_OF[type(node.op)]
        source = self.types.tensor(value)
        if source is None:
            line = f"nisa.tensor_scalar(dst={to}, data={to}, op0=nl.{name}, operand0={text})"
        else:
            text = self._repeated(text, value, target)
            if tensor is not None and tensor.buffer == source.buffer == "psum":
                text = f"nl.copy({text})"
            line = f"nisa.tensor_tensor(dst={to}, data1={to}, data2={text}, op=nl.{name})"
        return [guarded(Line(line), bounds)]

    def _loop_reduced(self, target: ast.expr, call: ast.Call) -> list[Line]:
        """``t = nl.loop_reduce(x, op, loop_indices=[i, j])``: a copy in the first round, then ``op`` of both."""
        named = arguments(call, ("x", "op", "loop_indices"))
        indices = named["loop_indices"]
        if self.types.tensor(target) is None or "mask" in named or not isinstance(indices, ast.List | ast.Tuple):
            raise NotCarriedOverError("`nl.loop_reduce`: accumulate in one tensor, and clear it in the first round")
        to, source = plain(in_one_line(self.code(target))), in_one_line(self.code(named["x"]))
        op = nki_value(self.names, named["op"]) or one_line(named["op"])
        first = " and ".join(f"{one_line(index)} == 0" for index in indices.elts)
        return [
            Line(f"if {first}:", [Line(f"nisa.tensor_copy(dst={to}, src={source})")]),
            Line("else:", [Line(f"nisa.tensor_tensor(dst={to}, data1={to}, data2={source}, op={op})")]),
        ]

    def _product(self, value: ast.expr, bounds: Bounds) -> str | None:
        """The operands of a matmul that is added to a tile in PSUM."""
        full = self.names.full(value.func) if isinstance(value, ast.Call) else ""
        if not isinstance(value, ast.Call) or full not in ("nki.language.matmul", "nki.isa.nc_matmul"):
            return None
        with self.below(bounds, value):
            if full == "nki.language.matmul":
                x, y = _product_of(self.code(value))
                return f"stationary={x}, moving={y}"
            line = self.written("dst_", "nc_matmul", value, self.call(value))
            return line.text.removeprefix("nisa.nc_matmul(dst=dst_, ").removesuffix(")")

    def _alone(self, node: ast.Expr, call: ast.Call) -> list[Line]:
        """A call as a statement."""
        if function := self.types.result_of(call):  # only its other effects are wanted
            return self._result(self.fresh(f"{function}_result"), function, call)
        bounds = self._bounds_of(call)
        with self.below(bounds, call):
            return [guarded(line, bounds) for line in self.changed(node, call)]

    def changed(self, small: ast.stmt, value: ast.expr) -> list[Line]:
        """A statement with one expression that is rewritten."""
        text = self.code(value)
        return [Line(replaced(small, [(value, text)] if text != code_of(value) else []))]

    def _is_tile(self, target: ast.Subscript) -> bool:
        """True if a subscript that is assigned to names a part of a tensor and not an item of a list."""
        if self.types.tensor(target.value) is not None:
            return True
        if self.types.facts.kind(target.value) in ("list", "dict"):
            return False
        return any(
            isinstance(key, ast.Slice) or (isinstance(key, ast.Constant) and key.value is ...)
            or self.types.value(key) is not None
            for key in keys_of(target)
        )  # fmt: skip


def mask_of(node: ast.expr) -> ast.expr | None:
    """The argument ``mask`` of a call, unless it is the word None."""
    mask = next((k.value for k in node.keywords if k.arg == "mask"), None) if isinstance(node, ast.Call) else None
    return None if isinstance(mask, ast.Constant) and mask.value is None else mask


def plain(text: str) -> str:
    """``t`` for ``t[...]``."""
    return text.removesuffix("[...]")


def guarded(line: Line, bounds: Bounds) -> Line:
    """The statement behind the conditions of a mask that no index tile is in."""
    if not bounds.conditions:
        return line
    return Line(f"if {' and '.join(dict.fromkeys(bounds.conditions))}:", [line])


def _unmasked(text: str) -> str:
    """A call without its mask, on one line."""
    text = in_one_line(text)
    node = expression(text)
    if not isinstance(node, ast.Call) or mask_of(node) is None:
        return text
    kept = [code_of(arg) for arg in (*node.args, *(k for k in node.keywords if k.arg != "mask"))]
    return f"{code_of(node.func)}({', '.join(kept)})"


def _argument(text: str, *parameters: str) -> str:
    """The code of the last one of some parameters in a call."""
    return code_of(arguments(expression(text), parameters)[parameters[-1]])


def _product_of(text: str) -> tuple[str, str]:
    """The operands of ``nl.matmul(x, y, transpose_x=True)``."""
    named = arguments(expression(text), ("x", "y"))
    return code_of(named["x"]), code_of(named["y"])


__all__ = ["Writes", "guarded", "mask_of", "plain"]
