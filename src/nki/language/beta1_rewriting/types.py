"""Shapes, dtypes and memories of tensors in the source of a Beta 1 kernel, from declarations and from a run."""

from __future__ import annotations

import ast
import inspect
import sys
from dataclasses import replace
from typing import Final

from nki.frontend.site import keys_of
from nki.language.beta1_functions import BINARY, FUNCTIONS, RESULTS
from nki.language.beta1_rewriting.dense import Group, joined
from nki.language.beta1_rewriting.facts import Facts, Tensor, joint, tensor_of
from nki.language.beta1_rewriting.indices import Evaluator, Index, Mask, Value, Variable
from nki.language.beta1_rewriting.result_shapes import Operand, Reader, is_true, promoted, reduced, result_tensor, sizes
from nki.language.beta1_rewriting.tables import (
    CREATED_LIKE,
    CREATION,
    ELEMENTWISE,
    PARAMETERS,
    REDUCTIONS,
    TENSORS,
    is_number,
)
from nki.source_text.names import Names
from nki.source_text.polynomial import Polynomial
from nki.source_text.source import one_line

Alternatives = tuple[tuple[str, Value], ...]
"""The values of a name, each with its condition; the last one, with the condition "", is for all other cases.

() where the conditions are no longer known.
"""
_ONE: Final = Polynomial.of(1)


def arguments(call: ast.Call, parameters: tuple[str, ...] = ()) -> dict[str, ast.expr]:
    """The arguments of a call by parameter; those by position get ``parameters``."""
    return dict(zip(parameters, call.args, strict=False)) | {k.arg: k.value for k in call.keywords if k.arg is not None}


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
        self.allocators: dict[str, ast.Call] = {}
        """Names of Beta 1's allocators, with the calls that made them."""
        self.unmasked: set[int] = set()
        """Calls with a mask that the code around them takes care of."""
        self._done: dict[int, tuple[ast.expr, Tensor | None]] = {}
        """The inferred tensors, with their nodes, so that no other node gets the identity of one."""

    @property
    def evaluator(self) -> Evaluator:
        return Evaluator(self.names, self.values, None if self.facts.assumed else self.grid, self.fixed)

    def value(self, node: ast.expr) -> Value | None:
        """The index, mask or grid that an expression is."""
        found = self.evaluator.evaluate(node)
        return joined(found, self.dense) if isinstance(found, Index) and self.dense else found

    def index(self, node: ast.expr) -> Index | None:
        """The index tile that an expression is."""
        value = self.value(node)
        return value if isinstance(value, Index) else None

    def tensor(self, node: ast.expr) -> Tensor | None:
        """The tensor that an expression is; None if it is none, or unknown."""
        if id(node) not in self._done:
            self._done[id(node)] = node, self._tensor(node)
        return self._done[id(node)][1]

    def declare(self, node: ast.expr, shape: tuple[Polynomial, ...]) -> None:
        """The user says which shape an expression has."""
        known = self.tensor(node)
        if known is not None and known.shape is None:
            self._done[id(node)] = node, Tensor(shape, known.dtype, known.buffer, known.blocks)

    def forget(self) -> None:
        """Drop what was inferred before a name changed its meaning."""
        self._done.clear()

    def declared(self, node: ast.expr) -> Tensor:
        """The tensor that an expression is by the source alone."""
        return self._declared(node) or Tensor()

    def _tensor(self, node: ast.expr) -> Tensor | None:
        known = self._declared(node)
        seen = self.facts.seen(node)
        name = node.id if isinstance(node, ast.Name) else ""
        if (self.fixed or self.dense) and known is not None and not name:
            return known  # the run had all axes at once
        if seen is None:
            if known is None and id(node) in self.facts.varying:
                first = tensor_of(self.facts.tensors[id(node)])
                return replace(first, shape=None, name=name)
            return known
        fact = tensor_of(seen)
        shape = fact.shape
        if known is not None and known.shape is not None and shape is not None and len(known.shape) == len(shape):
            agree = all(a.constant in (None, b.constant) for a, b in zip(known.shape, shape, strict=True))
            shape = known.shape if agree else shape
        dtype = known.dtype if known is not None and known.dtype else fact.dtype
        blocks = known.blocks if known and known.blocks else fact.blocks
        observed = not name and not (known is not None and known.name) and shape is fact.shape
        return Tensor(shape, dtype, fact.buffer, blocks, name, observed)

    def _declared(self, node: ast.expr) -> Tensor | None:
        match node:
            case ast.Name(id=name):
                known = self.tensors.get(name)
                return Tensor(known.shape, known.dtype, known.buffer, known.blocks, name) if known is not None else None
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.BinOp():
                return self._broadcast(node.left, node.right)
            case ast.Compare(ops=[_], comparators=[right]):
                return self._broadcast(node.left, right, "nl.uint8")
            case ast.UnaryOp():
                return self._unnamed(self.tensor(node.operand))
            case ast.ListComp(elt=inner) if self.facts.assumed and (tile := self.tensor(inner)) is not None:
                return replace(tile, blocks=(_ONE, *tile.blocks))
            case _:
                return None

    def _unnamed(self, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        buffer = "sbuf" if tensor.buffer == "psum" else tensor.buffer
        return Tensor(tensor.shape, tensor.dtype, buffer, name=tensor.name)

    def _broadcast(self, left: ast.expr, right: ast.expr, dtype: str = "") -> Tensor | None:
        one, other = self.tensor(left), self.tensor(right)
        if one is None or other is None:
            only = one or other
            return Tensor(only.shape, dtype or only.dtype, "sbuf", name=only.name) if only is not None else None
        kind = dtype or promoted(one.dtype, other.dtype)
        if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
            return Tensor(None, kind)
        shape = joint(one.shape, other.shape)
        name = one.name if shape == one.shape else other.name if shape == other.shape else ""
        return Tensor(shape, kind, name=name)

    # -- calls ---------------------------------------------------------------------------------------------------

    def result_of(self, call: ast.Call) -> str:
        """The instruction of a call that returned its result in Beta 1; "" for other calls, and for calls of today."""
        package, _, name = self.names.full(call.func).rpartition(".")
        if package != "nki.isa" or name not in RESULTS or any(k.arg == "dst" for k in call.keywords):
            return ""
        return "" if self.facts.assumed and self._is_of_today(call, name) else name

    def _is_of_today(self, call: ast.Call, name: str) -> bool:
        """True for a call with a destination by position."""
        function = getattr(sys.modules["nki.isa"], name, None)
        try:
            signature = inspect.signature(function) if callable(function) else inspect.Signature()
            named = {str(k.arg): k.value for k in call.keywords if k.arg in signature.parameters}
            given: dict[str, object] = signature.bind(*call.args, **named).arguments
        except TypeError:
            return False
        return not any(self._is_no_tensor(each, given[each]) for each in TENSORS if each in given)

    def _is_no_tensor(self, parameter: str, node: object) -> bool:
        """True for a shape, a number, an index and an operator."""
        if not isinstance(node, ast.expr):
            return False
        package, _, name = self.names.full(node).rpartition(".")
        number = isinstance(node, ast.Constant) and is_number(parameter, node.value)
        plain = isinstance(node, ast.Tuple | ast.List) or number or self.index(node) is not None
        return plain or (package in ("numpy", "nki.language") and name != "")

    def _call(self, node: ast.Call) -> Tensor | None:
        package, _, name = self.names.full(node.func).rpartition(".")
        if self.result_of(node):
            return self._instruction(node, name)
        if package == "nki.language":
            return self._function(node, name)
        match node.func:
            case ast.Attribute(value=value, attr="reshape" | "broadcast_to" | "view" | "astype" as method):
                return self._method(node, method, self.tensor(value))
            case _:
                return None

    def _method(self, node: ast.Call, method: str, owner: Tensor | None) -> Tensor | None:
        if owner is None:
            return None
        first = node.args[0] if node.args else next((k.value for k in node.keywords), None)
        dtype = owner.dtype
        if first is not None and method in ("view", "astype"):
            dtype = dtype_text(self.names, first)
        if method == "astype":
            return Tensor(owner.shape, dtype, "sbuf")
        shape = sizes(self.evaluator.polynomial, first) if method in ("reshape", "broadcast_to") else None
        if method == "broadcast_to" and len(node.args) > 1:
            shape = tuple(map(self.evaluator.polynomial, node.args))
        return Tensor(shape, dtype, owner.buffer)

    def _dtype(self, named: dict[str, ast.expr], default: str) -> str:
        match named.get("dtype"):
            case None:
                return default
            case ast.Attribute(value=ast.Name(id=name), attr="dtype") if (
                name in self.tensors and self.tensors[name].blocks
            ):
                return self.tensors[name].dtype
            case value:
                return dtype_text(self.names, value)

    def _function(self, node: ast.Call, name: str) -> Tensor | None:
        named = arguments(node, ("x", "y"))
        first = named.get("x") or named.get("src") or named.get("data") or (node.args[0] if node.args else None)
        if name in CREATION:
            return self.created(node, name)
        if first is None:
            return None
        operand = self.tensor(first)
        if name == "load":
            if operand is None:
                return Tensor(None, self._dtype(named, ""))
            if operand.shape is not None and len(operand.shape) == 1:  # a row of numbers is a column on chip
                return Tensor((*operand.shape, _ONE), self._dtype(named, operand.dtype))
            return Tensor(operand.shape, self._dtype(named, operand.dtype), "sbuf", name=operand.name)
        if name in BINARY and "y" in named:
            result = self._broadcast(first, named["y"])
            if result is None:
                return Tensor(None, self._dtype(named, ""))
            return Tensor(result.shape, self._dtype(named, result.dtype), name=result.name)
        if operand is None:
            return Tensor(None, self._dtype(named, "")) if name in {*ELEMENTWISE, *REDUCTIONS, *BINARY} else None
        return self._of_operand(node, name, named, operand)

    def _of_operand(self, node: ast.Call, name: str, named: dict[str, ast.expr], operand: Tensor) -> Tensor | None:
        """The result of a function of one tensor."""
        dtype = self._dtype(named, operand.dtype)
        if name in ELEMENTWISE:
            return Tensor(operand.shape, dtype, name=operand.name)
        if name == "matmul":
            return self._product(named)
        if name == "transpose" and operand.shape is not None:
            return Tensor(operand.shape[::-1], dtype, "psum")
        if name in REDUCTIONS:
            return Tensor(reduced(operand.shape, named.get("axis"), is_true(named.get("keepdims"))), dtype)
        if name == "load_transpose2d" and operand.shape is not None and len(operand.shape) == 2:
            return Tensor(operand.shape[::-1], dtype)
        if name == "broadcast_to":
            return Tensor(sizes(self.evaluator.polynomial, arguments(node, ("src", "shape")).get("shape")), dtype)
        if name in CREATED_LIKE:
            return Tensor(operand.shape, dtype, "sbuf", operand.blocks, operand.name)
        if name in {"where", "transpose", "load_transpose2d", "gather_flattened"}:
            return Tensor(None, dtype)
        return None

    def _product(self, named: dict[str, ast.expr]) -> Tensor | None:
        x, y = self.tensor(named["x"]), self.tensor(named["y"]) if "y" in named else None
        if x is None or y is None or x.shape is None or y.shape is None:
            return Tensor(None, "nl.float32", "psum")
        return Tensor((x.shape[1 if is_true(named.get("transpose_x")) else 0], y.shape[1]), "nl.float32", "psum")

    def created(self, node: ast.Call, name: str) -> Tensor:
        """The tensor that ``nl.ndarray(shape, dtype, buffer=…)`` makes."""
        named = arguments(node, creation_order(name))
        sizes = named.get("shape")
        buffer = one_line(named["buffer"]) if "buffer" in named else "sbuf"
        kind = "psum" if "psum" in buffer else "hbm" if "hbm" in buffer else "sbuf"
        dtype = self._dtype(named, "")
        if not isinstance(sizes, ast.Tuple | ast.List):
            return Tensor(None, dtype, kind)
        partitions = [par_dim_of(self.names, size) is not None for size in sizes.elts]
        blocks = partitions.index(True) if True in partitions and kind != "hbm" else 0
        shape = tuple(map(self.evaluator.polynomial, sizes.elts))
        return Tensor(shape[blocks:], dtype, kind, shape[:blocks])

    def _instruction(self, node: ast.Call, name: str) -> Tensor:
        named = arguments(node, PARAMETERS[name])
        operands = {key: Operand(value, self.tensor(value)) for key, value in named.items()}
        result = result_tensor(FUNCTIONS[name], operands, Reader(self.evaluator.polynomial, self._of_index))
        return replace(result, dtype=self._dtype(named, result.dtype))

    def _of_index(self, node: ast.expr) -> tuple[Polynomial, ...] | None:
        """The shape of an index tile."""
        value = self.index(node)
        if value is None:
            return None
        sizes = {variable.axis: variable.size for variable, _ in value.steps}
        return tuple(sizes.get(axis, _ONE) for axis in range(-max(value.ndim, 2), 0))

    # -- subscripts ----------------------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript) -> Tensor | None:
        owner = self.tensor(node.value)
        if owner is None:
            return None
        keys = keys_of(node)
        values = [self.value(key) for key in keys]
        unknown = Tensor(None, owner.dtype, owner.buffer)
        if owner.shape is None and not any(isinstance(value, Index) for value in values):
            return unknown  # an index tile beside others names every dimension
        if any(isinstance(value, Mask) for value in values):
            return unknown  # an operand, cut by its mask
        parts: list[Polynomial] = []
        rest = list(owner.shape) if owner.shape is not None else [Polynomial()] * len(keys)
        variables: dict[int, Polynomial] = {}
        ndim, rows = 0, None
        keys = keys[len(owner.blocks) :]
        for key in keys:
            if not rest:
                return unknown
            if isinstance(key, ast.Constant) and key.value is ...:
                return Tensor(owner.shape if len(keys) == 1 else None, owner.dtype, owner.buffer, name=owner.name)
            size = rest.pop(0)
            tile = self.tensor(key) if owner.buffer == "hbm" and not isinstance(key, ast.Slice) else None
            if tile is not None:
                rows = tile.shape[0] if tile.shape else Polynomial.of(f"{one_line(key)}.shape[0]")
                parts += [rows] if rows.constant != 1 else []
                continue
            part = self._part(key, size)
            if isinstance(part, Index):
                for variable, _ in part.steps:
                    variables[variable.axis] = variable.size
                    ndim = max(ndim, variable.ndim)
            elif part is not None:
                parts.append(part)
            elif owner.buffer != "hbm" and not parts and not variables:
                parts.append(_ONE)
        if variables:
            if rows is not None:
                variables.setdefault(-ndim, rows)
            parts = [variables.get(axis, _ONE) for axis in range(-ndim, 0)]
        return Tensor((*parts, *rest), owner.dtype, owner.buffer)

    def _part(self, key: ast.expr, size: Polynomial) -> Polynomial | Index | None:
        """The part that one key of a subscript leaves: a size, the variables of an index, or None for a number."""
        if isinstance(key, ast.Slice):
            start = self.evaluator.polynomial(key.lower) if key.lower is not None else Polynomial()
            stop = self.evaluator.polynomial(key.upper) if key.upper is not None else size
            return stop - start
        if isinstance(key, ast.Call) and self.names.full(key.func) == "nki.language.ds":
            return self.evaluator.polynomial(key.args[1])
        return self.index(key)


def creation_order(name: str) -> tuple[str, ...]:
    """The positional parameters of a function that makes a tensor."""
    return ("shape", "fill_value", "dtype", "buffer") if name == "full" else ("shape", "dtype", "buffer")


def par_dim_of(names: Names, node: ast.expr) -> ast.expr | None:
    """The size inside of ``nl.par_dim(size)``; None for other expressions."""
    if isinstance(node, ast.Call) and names.full(node.func) == "nki.language.par_dim" and node.args:
        return node.args[0]
    return None


_NUMPY_NAMES: Final = {"bool": "bool_", "half": "float16", "single": "float32"}


def dtype_text(names: Names, node: ast.expr) -> str:
    """A dtype argument as NKI's own name; other expressions as they are."""
    full = names.full(node)
    if full.startswith("numpy."):
        name = full.removeprefix("numpy.")
        return f"nl.{_NUMPY_NAMES.get(name, name)}"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return f"nl.{node.value}"
    return one_line(node)


__all__ = [
    "Types",
    "arguments",
    "creation_order",
    "dtype_text",
    "par_dim_of",
]
