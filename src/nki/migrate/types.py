"""Shapes, dtypes and memories of tensors in the source of a Beta 1 kernel, from declarations and from a run."""

from __future__ import annotations

from typing import Final

import libcst as cst

from nki.language.advice.beta1.results import COLUMNS, LIKE, PARAMETERS, RESULTS
from nki.migrate.dense import Group, joined
from nki.migrate.facts import Facts, Tensor, tensor_of
from nki.migrate.indices import Evaluator, Grid, Index, Mask, Value, Variable
from nki.migrate.polynomial import Polynomial
from nki.migrate.syntax.code import one_line
from nki.migrate.syntax.names import Names

Alternatives = tuple[tuple[str, Value], ...]
"""The values of a name, each with its condition; the last, whose condition is "", is that of all other cases.

() where the conditions are no longer known.
"""
CREATION: Final = {"ndarray", "zeros", "ones", "full", "rand"}
CREATED_LIKE: Final = {"zeros_like", "empty_like"}
ELEMENTWISE: Final = {
    "abs", "arctan", "ceil", "cos", "erf", "erf_dx", "exp", "floor", "gelu", "gelu_apprx_sigmoid", "gelu_apprx_tanh",
    "gelu_dx", "invert", "log", "logical_not", "mish", "negative", "reciprocal", "relu", "rsqrt", "sigmoid", "sign",
    "silu", "silu_dx", "sin", "softplus", "sqrt", "square", "tan", "tanh", "trunc", "copy", "softmax", "dropout",
    "rms_norm", "static_cast",
}  # fmt: skip
BINARY: Final = {
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "mod", "fmod", "bitwise_and", "bitwise_or",
    "bitwise_xor", "left_shift", "right_shift", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor",
}  # fmt: skip
REDUCTIONS: Final = {"sum", "max", "min", "mean", "prod", "var", "all"}
OPERATORS: Final[dict[type[cst.CSTNode], str]] = {
    cst.Add: "add", cst.Subtract: "subtract", cst.Multiply: "multiply", cst.Divide: "divide", cst.Power: "power",
    cst.Modulo: "mod", cst.BitAnd: "bitwise_and", cst.BitOr: "bitwise_or", cst.BitXor: "bitwise_xor",
    cst.LeftShift: "left_shift", cst.RightShift: "right_shift", cst.LessThan: "less", cst.LessThanEqual: "less_equal",
    cst.GreaterThan: "greater", cst.GreaterThanEqual: "greater_equal", cst.Equal: "equal", cst.NotEqual: "not_equal",
    cst.AddAssign: "add", cst.SubtractAssign: "subtract", cst.MultiplyAssign: "multiply", cst.DivideAssign: "divide",
    cst.PowerAssign: "power", cst.ModuloAssign: "mod", cst.BitAndAssign: "bitwise_and", cst.BitOrAssign: "bitwise_or",
    cst.BitXorAssign: "bitwise_xor", cst.LeftShiftAssign: "left_shift", cst.RightShiftAssign: "right_shift",
}  # fmt: skip
"""The function of each operator on tiles."""


def arguments(call: cst.Call, parameters: tuple[str, ...]) -> dict[str, cst.Arg]:
    """The arguments of a call by parameter; those by position get ``parameters``."""
    named: dict[str, cst.Arg] = {}
    for position, arg in enumerate(call.args):
        if arg.keyword is not None:
            named[arg.keyword.value] = arg
        elif position < len(parameters):
            named[parameters[position]] = arg
    return named


class Types:
    """Values of names at one point of a function: indices and masks in ``values``, tensors in ``tensors``."""

    def __init__(self, names: Names, facts: Facts) -> None:
        self.names = names
        self.facts = facts
        self.values: dict[str, Value] = {}
        self.tensors: dict[str, Tensor] = {}
        self.grid: dict[int, str] = {}
        self.loose: set[str] = set()
        """Numbers that callers choose freely, and those computed from them: a mask may let nothing through."""
        self.equal: list[tuple[str, str]] = []
        """Dtypes of parameters that the new code takes as equal, as they were in the run."""
        self.choices: dict[str, Alternatives] = {}
        """Names that are one index or another, by the branch that was taken."""
        self.fixed: tuple[tuple[Variable, Polynomial], ...] = ()
        """Axes of the present statement that loops of the new code run through."""
        self.dense: tuple[Group, ...] = ()
        """Axes of the present statement that are one axis of the new code."""
        self.on_device = False
        """True in a kernel and in what kernels call, which import nothing themselves."""
        self.allocators: dict[str, cst.BaseExpression] = {}
        """Names of Beta 1's allocators, with the calls that made them."""
        self.unmasked: set[int] = set()
        """Calls whose mask the code around them takes care of."""
        self._done: dict[int, Tensor | None] = {}

    @property
    def evaluator(self) -> Evaluator:
        return Evaluator(self.names, self.values, self.grid, self.fixed)

    def value(self, node: cst.BaseExpression) -> Value | None:
        """The index, mask or grid that an expression is."""
        found = self.evaluator.evaluate(node)
        if isinstance(found, Index) and self.dense:
            return joined(found, self.dense)
        return found if isinstance(found, Index | Mask | Grid) else None

    def tensor(self, node: cst.BaseExpression) -> Tensor | None:
        """The tensor that an expression is, as far as is known; None if it is none."""
        if id(node) not in self._done:
            self._done[id(node)] = self._tensor(node)
        return self._done[id(node)]

    def declare(self, node: cst.BaseExpression, shape: tuple[Polynomial, ...]) -> None:
        """The user says which shape an expression has."""
        known = self.tensor(node)
        if known is not None and known.shape is None:
            self._done[id(node)] = Tensor(shape, known.dtype, known.buffer, known.blocks)

    def forget(self) -> None:
        """Drop what was inferred before a name changed its meaning."""
        self._done.clear()

    def is_tile(self, node: cst.BaseExpression) -> bool:
        tensor = self.tensor(node)
        return tensor is not None

    def declared(self, node: cst.BaseExpression) -> Tensor:
        """The tensor that an expression is by the source alone."""
        return self._declared(node) or Tensor()

    def _tensor(self, node: cst.BaseExpression) -> Tensor | None:
        known = self._declared(node)
        seen = self.facts.seen(node)
        if (self.fixed or self.dense) and known is not None and not isinstance(node, cst.Name):
            return known  # the run had all axes at once
        if seen is None:
            if known is None and id(node) in self.facts.varying:
                first = self.facts.tensors[id(node)]
                name = node.value if isinstance(node, cst.Name) else ""
                blocks = known.blocks if known is not None and known.blocks else tensor_of(first).blocks
                return Tensor(
                    known.shape if known is not None else None, f"nl.{first.dtype}", first.buffer, blocks, name
                )
            return known
        fact = tensor_of(seen)
        name = node.value if isinstance(node, cst.Name) else ""
        shape = fact.shape
        if known is not None and known.shape is not None and shape is not None and len(known.shape) == len(shape):
            agree = all(a.constant in (None, b.constant) for a, b in zip(known.shape, shape, strict=True))
            shape = known.shape if agree else shape
        dtype = known.dtype if known is not None and known.dtype and "promoted" not in known.dtype else fact.dtype
        blocks = known.blocks if known and known.blocks else fact.blocks
        observed = not name and not (known is not None and known.name) and shape is fact.shape
        return Tensor(shape, dtype, fact.buffer, blocks, name, observed)

    def _declared(self, node: cst.BaseExpression) -> Tensor | None:
        match node:
            case cst.Name(value=name):
                known = self.tensors.get(name)
                if known is None:
                    return None
                return Tensor(known.shape, known.dtype, known.buffer, known.blocks, name)
            case cst.Call():
                return self._call(node)
            case cst.Subscript():
                return self._subscript(node)
            case cst.BinaryOperation():
                return self._broadcast(node.left, node.right)
            case cst.Comparison(comparisons=[target]):
                return self._broadcast(node.left, target.comparator, "nl.uint8")
            case cst.UnaryOperation():
                return self._unnamed(self.tensor(node.expression))
            case _:
                return None

    def _unnamed(self, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        buffer = "sbuf" if tensor.buffer == "psum" else tensor.buffer
        return Tensor(tensor.shape, tensor.dtype, buffer, name=tensor.name)

    def _broadcast(self, left: cst.BaseExpression, right: cst.BaseExpression, dtype: str = "") -> Tensor | None:
        one, other = self.tensor(left), self.tensor(right)
        if one is None or other is None:
            only = one or other
            return Tensor(only.shape, dtype or only.dtype, "sbuf", name=only.name) if only is not None else None
        kind = dtype or promoted(one.dtype, other.dtype)
        if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
            return Tensor(None, kind)
        shape = tuple(b if a.constant == 1 else a for a, b in zip(one.shape, other.shape, strict=True))
        name = one.name if shape == one.shape else other.name if shape == other.shape else ""
        return Tensor(shape, kind, name=name)

    def _call(self, node: cst.Call) -> Tensor | None:
        full = self.names.full(node.func)
        package, _, name = full.rpartition(".")
        if package == "nki.isa" and name in RESULTS:
            return self._instruction(node, name)
        if package == "nki.language":
            return self._function(node, name)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in (
            "reshape",
            "broadcast_to",
            "view",
            "astype",
        ):
            owner = self.tensor(node.func.value)
            if owner is None:
                return None
            method = node.func.attr.value
            shape = self._sizes(node.args[0]) if method in ("reshape", "broadcast_to") and len(node.args) == 1 else None
            known = shape if shape is not None else owner.shape if method == "astype" else None
            dtype = dtype_text(self.names, node.args[0].value) if method in ("astype", "view") else owner.dtype
            return Tensor(known, dtype, owner.buffer if method != "astype" else "sbuf")
        return None

    def _dtype(self, named: dict[str, cst.Arg], default: str) -> str:
        if "dtype" not in named:
            return default
        match named["dtype"].value:
            case cst.Attribute(value=cst.Name(value=name), attr=cst.Name(value="dtype")) if (
                name in self.tensors and self.tensors[name].blocks
            ):
                return self.tensors[name].dtype
            case value:
                return dtype_text(self.names, value)

    def _function(self, node: cst.Call, name: str) -> Tensor | None:
        named = arguments(node, ("x", "y"))
        first = named.get("x") or named.get("src") or named.get("data") or (node.args[0] if node.args else None)
        if name in CREATION:
            return self.created(node, name)
        if first is None:
            return None
        operand = self.tensor(first.value)
        if name == "load":
            if operand is None:
                return Tensor(None, self._dtype(named, ""))
            if operand.shape is not None and len(operand.shape) == 1:  # a row of numbers is a column on chip
                return Tensor((*operand.shape, Polynomial.of(1)), self._dtype(named, operand.dtype))
            return Tensor(operand.shape, self._dtype(named, operand.dtype), "sbuf", name=operand.name)
        if name in BINARY and "y" in named:
            result = self._broadcast(first.value, named["y"].value)
            if result is None:
                return Tensor(None, self._dtype(named, ""))
            return Tensor(result.shape, self._dtype(named, result.dtype), name=result.name)
        if operand is None:
            return Tensor(None, self._dtype(named, "")) if name in ELEMENTWISE | REDUCTIONS | BINARY else None
        if name in ELEMENTWISE:
            return Tensor(operand.shape, self._dtype(named, operand.dtype), name=operand.name)
        if name == "matmul":
            return self._product(named)
        if name == "transpose" and operand.shape is not None:
            return Tensor(operand.shape[::-1], self._dtype(named, operand.dtype), "psum")
        if name in REDUCTIONS:
            return Tensor(self._reduced(named, operand), self._dtype(named, operand.dtype))
        if name == "load_transpose2d" and operand.shape is not None and len(operand.shape) == 2:
            return Tensor(operand.shape[::-1], self._dtype(named, operand.dtype))
        if name == "broadcast_to":
            return Tensor(
                self._sizes(arguments(node, ("src", "shape")).get("shape")), self._dtype(named, operand.dtype)
            )
        if name in CREATED_LIKE:
            return Tensor(operand.shape, self._dtype(named, operand.dtype), "sbuf", operand.blocks, operand.name)
        if name in CREATED_LIKE | {"where", "transpose", "load_transpose2d", "broadcast_to", "gather_flattened"}:
            return Tensor(None, self._dtype(named, operand.dtype))
        return None

    def _sizes(self, arg: cst.Arg | None) -> tuple[Polynomial, ...] | None:
        """A shape that is written out."""
        value = arg.value if arg is not None else None
        if not isinstance(value, cst.Tuple | cst.List):
            return None
        return tuple(self.evaluator.polynomial(element.value) for element in value.elements)

    def _reduced(self, named: dict[str, cst.Arg], operand: Tensor) -> tuple[Polynomial, ...] | None:
        """The shape of a reduction over ``axis``."""
        if operand.shape is None or "axis" not in named:
            return None
        text = one_line(named["axis"].value)
        numbers = [int(word) for word in text.strip("[]()").replace(" ", "").split(",") if word.lstrip("-").isdigit()]
        rank = len(operand.shape)
        axes = {number % rank for number in numbers}
        if not axes or 0 in axes:
            return None
        one = Polynomial.of(1)
        if "keepdims" in named and one_line(named["keepdims"].value) == "True":
            return tuple(one if k in axes else size for k, size in enumerate(operand.shape))
        left = tuple(size for k, size in enumerate(operand.shape) if k not in axes)
        return left if len(left) > 1 else (*left, one)

    def _product(self, named: dict[str, cst.Arg]) -> Tensor | None:
        x, y = self.tensor(named["x"].value), self.tensor(named["y"].value) if "y" in named else None
        if x is None or y is None or x.shape is None or y.shape is None:
            return Tensor(None, "nl.float32", "psum")
        turned = "transpose_x" in named and one_line(named["transpose_x"].value) == "True"
        return Tensor((x.shape[1 if turned else 0], y.shape[1]), "nl.float32", "psum")

    def created(self, node: cst.Call, name: str) -> Tensor | None:
        """The tensor that ``nl.ndarray(shape, dtype, buffer=…)`` makes."""
        order = ("shape", "fill_value", "dtype") if name == "full" else ("shape", "dtype")
        named = arguments(node, order)
        sizes = named["shape"].value if "shape" in named else None
        buffer = one_line(named["buffer"].value) if "buffer" in named else "sbuf"
        kind = "psum" if "psum" in buffer else "hbm" if "hbm" in buffer else "sbuf"
        dtype = self._dtype(named, "")
        if not isinstance(sizes, cst.Tuple | cst.List):
            return Tensor(None, dtype, kind)
        elements: list[Polynomial] = []
        partition = 0
        for position, element in enumerate(sizes.elements):
            inner = par_dim_of(self.names, element.value)
            if inner is not None:
                partition = position
            elements.append(self.evaluator.polynomial(inner if inner is not None else element.value))
        if kind == "hbm":
            partition = 0
        return Tensor(tuple(elements[partition:]), dtype, kind, tuple(elements[:partition]))

    def _instruction(self, node: cst.Call, name: str) -> Tensor | None:
        named = arguments(node, PARAMETERS[name])
        if name in LIKE:
            operand = self.tensor(named[LIKE[name]].value) if LIKE[name] in named else None
            if operand is None:
                return Tensor(None, self._dtype(named, ""))
            dtype = operand.dtype
            if name == "tensor_tensor" and "data2" in named:
                other = self.tensor(named["data2"].value)
                dtype = promoted(dtype, other.dtype) if other is not None else ""
            return Tensor(operand.shape, self._dtype(named, dtype), name=operand.name)
        data = {key: self.tensor(arg.value) for key, arg in named.items()}
        return self._shaped(node, name, named, data)

    def _shaped(
        self, node: cst.Call, name: str, named: dict[str, cst.Arg], data: dict[str, Tensor | None]
    ) -> Tensor | None:
        """The result of an instruction with a shape of its own."""
        one = Polynomial.of(1)
        first = data.get("data") or data.get("src")
        rows = first.shape[0] if first is not None and first.shape else None
        dtype = self._dtype(named, first.dtype if first is not None else "")
        rest = named.get("shape")
        if name == "memset" and rest is not None and not isinstance(rest.value, cst.Tuple | cst.List):
            return Tensor(None, dtype)
        match name:
            case "nc_matmul":
                x, y = data.get("stationary"), data.get("moving")
                known = x is not None and y is not None and x.shape is not None and y.shape is not None
                flat = known and x is not None and y is not None and len(x.shape or ()) == len(y.shape or ()) == 2
                shape = (x.shape[1], y.shape[1]) if flat and x and y and x.shape and y.shape else None
                return Tensor(shape, "nl.float32", "psum")
            case "nc_transpose":
                vector = "engine" in named and "vector" in one_line(named["engine"].value)
                shape = first.shape[::-1] if first is not None and first.shape and len(first.shape) == 2 else None
                return Tensor(shape, dtype, "sbuf" if vector else "psum")
            case "bn_stats" | "bn_aggr" | "max8" | "nc_find_index8" if rows is not None:
                kind = "nl.uint32" if name == "nc_find_index8" else dtype
                return Tensor((rows, Polynomial.of(COLUMNS[name])), kind)
            case "tensor_reduce" if first is not None:
                return Tensor(self._reduced(named, first), dtype)
            case "tensor_partition_reduce" if first is not None and first.shape is not None:
                return Tensor((one, *first.shape[1:]), dtype)
            case "dma_transpose" if first is not None and first.shape is not None and len(first.shape) < 4:
                return Tensor(first.shape[::-1], dtype)
            case "local_gather":
                return self._gathered(named, data)
            case "iota":
                return Tensor(self._of_index(named["expr"].value), dtype_text(self.names, named["dtype"].value))
            case "memset" if isinstance(named["shape"].value, cst.Tuple | cst.List):
                made = self.created(node.with_changes(args=[named["shape"]]), "ndarray")
                return Tensor(made.shape, dtype) if made is not None else None
            case _:
                return Tensor(None, dtype)

    def _gathered(self, named: dict[str, cst.Arg], data: dict[str, Tensor | None]) -> Tensor | None:
        """The result of ``nisa.local_gather``: so many elements for each index of 16 partitions."""
        source, index = data.get("src_buffer"), data.get("index")
        if source is None or not source.shape or index is None:
            return None
        given = {
            key: self.evaluator.polynomial(named[key].value)
            for key in ("num_elem_per_idx", "num_valid_indices")
            if key in named
        }
        each = given.get("num_elem_per_idx", Polynomial.of(1))
        every = index.shape[1] * 16 if index.shape and len(index.shape) == 2 else None
        count = given.get("num_valid_indices", every)
        if count is None:
            return Tensor(None, source.dtype)
        return Tensor((source.shape[0], count, *([each] if each.constant != 1 else [])), source.dtype)

    def _of_index(self, node: cst.BaseExpression) -> tuple[Polynomial, ...] | None:
        """The shape of an index tile."""
        value = self.value(node)
        if not isinstance(value, Index):
            return None
        sizes = {variable.axis: variable.size for variable, _ in value.steps}
        return tuple(sizes.get(axis, Polynomial.of(1)) for axis in range(-max(value.ndim, 2), 0))

    def _subscript(self, node: cst.Subscript) -> Tensor | None:
        owner = self.tensor(node.value)
        if owner is None:
            return None
        if owner.shape is None and not self._indexed(node):
            return Tensor(None, owner.dtype, owner.buffer)
        if any(isinstance(e.slice, cst.Index) and isinstance(self.value(e.slice.value), Mask) for e in node.slice):
            return Tensor(None, owner.dtype, owner.buffer)  # an operand, cut by its mask
        parts: list[Polynomial | None] = []
        rest = list(owner.shape) if owner.shape is not None else [Polynomial()] * len(node.slice)
        elements = list(node.slice)[len(owner.blocks) :]
        variables: dict[int, Polynomial] = {}
        ndim, rows = 0, None
        for element in elements:
            if not rest:
                return Tensor(None, owner.dtype, owner.buffer)
            inner = element.slice
            if isinstance(inner, cst.Index) and isinstance(inner.value, cst.Ellipsis):
                return Tensor(owner.shape if len(elements) == 1 else None, owner.dtype, owner.buffer, name=owner.name)
            size = rest.pop(0)
            tile = self.tensor(inner.value) if isinstance(inner, cst.Index) and owner.buffer == "hbm" else None
            if tile is not None:
                rows = tile.shape[0] if tile.shape else Polynomial.of(f"{one_line(inner)}.shape[0]")
                parts += [rows] if rows.constant != 1 else []
                continue
            part = self._part(inner, size)
            if isinstance(part, Index):
                for variable, _ in part.steps:
                    variables[variable.axis] = variable.size
                    ndim = max(ndim, variable.ndim)
            elif part is not None:
                parts.append(part)
            elif owner.buffer != "hbm" and not parts and not variables:
                parts.append(Polynomial.of(1))
        if variables:
            if rows is not None:
                variables.setdefault(-ndim, rows)
            shape = tuple(variables.get(axis, Polynomial.of(1)) for axis in range(-ndim, 0))
            return Tensor((*shape, *rest), owner.dtype, owner.buffer)
        return Tensor((*(p for p in parts if p is not None), *rest), owner.dtype, owner.buffer)

    def _indexed(self, node: cst.Subscript) -> bool:
        """True if an index tile stands in the subscript, which so names every dimension."""
        return any(
            isinstance(element.slice, cst.Index) and isinstance(self.value(element.slice.value), Index)
            for element in node.slice
        )

    def _part(self, inner: cst.BaseSlice, size: Polynomial) -> Polynomial | Index | None:
        """The part that one element of a subscript leaves: a size, the variables of an index, or None for a number."""
        if isinstance(inner, cst.Slice):
            start = self.evaluator.polynomial(inner.lower) if inner.lower is not None else Polynomial()
            stop = self.evaluator.polynomial(inner.upper) if inner.upper is not None else size
            return stop - start
        value = inner.value if isinstance(inner, cst.Index) else None
        if isinstance(value, cst.Call) and self.names.full(value.func) == "nki.language.ds":
            return self.evaluator.polynomial(value.args[1].value)
        index = self.value(value) if value is not None else None
        return index if isinstance(index, Index) else None


def par_dim_of(names: Names, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """The size inside of ``nl.par_dim(size)``; None for other expressions."""
    if isinstance(node, cst.Call) and names.full(node.func) == "nki.language.par_dim" and node.args:
        return node.args[0].value
    return None


def promoted(one: str, other: str) -> str:
    """The dtype of a result of two tiles; "" if it is not known from the source."""
    if one == other:
        return one
    return "nl.float32" if "nl.float32" in (one, other) else ""


_NUMPY_NAMES: Final = {"bool": "bool_", "half": "float16", "single": "float32"}


def dtype_text(names: Names, node: cst.BaseExpression) -> str:
    """A dtype argument as NKI's own name; other expressions as they are."""
    full = names.full(node)
    if full.startswith("numpy."):
        name = full.removeprefix("numpy.")
        return f"nl.{_NUMPY_NAMES.get(name, name)}"
    if isinstance(node, cst.SimpleString):
        return f"nl.{node.raw_value}"
    return one_line(node)


__all__ = ["BINARY", "CREATION", "ELEMENTWISE", "OPERATORS", "REDUCTIONS", "Types", "arguments", "dtype_text",
           "par_dim_of"]  # fmt: skip
