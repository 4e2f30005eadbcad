"""The functions of ``neuronxcc.nki.isa``, made of the table of Beta 1 and of today's declarations.

A function converts its arguments as the declaration of the instruction has them, makes the result that the table
describes, and records the instruction over the part that the mask leaves. :mod:`nki.beta1.instructions` has the rest.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nki import isa
from nki.base import element_types as dt
from nki.beta1 import dtypes
from nki.beta1.beta1_tensor import Pending, Tensor, flush
from nki.beta1.index import Index
from nki.beta1.instructions import COMPUTED, EMITTED, PREPARED, WHOLE, Operands, builtin_custom_op, cut
from nki.beta1.lowering import at_start, converted, elementwise, in_sbuf, joint_shape, operand_of, tile_of, written
from nki.beta1.operator_names import bit_kind, is_bits, operator_of
from nki.beta1.reducing import axes_of, left_of
from nki.ir.instruction import REGISTRY, Field
from nki.ir.types import Access, Buffer, Role
from nki.isa.tables import enums
from nki.isa.tables.operators import Op
from nki.language.beta1_functions import FUNCTIONS, Function

_INSTRUCTION: Final = {
    "activation_reduce": "activation", "tensor_copy_dynamic_dst": "tensor_copy",
    "tensor_copy_dynamic_src": "tensor_copy",
}  # fmt: skip
"""Today's instruction, where it has another name."""
_IN_ANY_MEMORY: Final = ("dma_copy", "dma_transpose")
"""Functions that take tensors in HBM as well."""
_OF_TILES: Final = ("bn_aggr", "bn_stats", "max8", "nc_find_index8")
"""Instructions that work on tiles as they are, not element by element."""
_IN_SBUF: Final = ("local_gather", "sequence_bounds", "tensor_partition_reduce")
"""Such instructions of tiles in SBUF alone."""
_DIRECT_TO_SBUF: Final = (*_IN_SBUF, "affine_select", "dma_transpose", "iota")
"""Functions that write a destination in SBUF themselves; in PSUM they need a copy."""
_IN_ANY_DTYPE: Final = frozenset({"bias", "initial", "imm0", "imm1", "prob"})
"""Columns, operands of one element per partition, that need not be float32."""


Shape = tuple[int, ...]


def _free(x: Tensor) -> int:
    return math.prod(x.shape[1:])


def _reduced(x: Tensor, axis: Any, keepdims: bool) -> Shape:
    return left_of(x.shape, axes_of("nisa.tensor_reduce", x, axis), keepdims=keepdims)


def _grid(expr: Index) -> Shape:
    return expr.shape if expr.ndim > 1 else (1, *expr.shape)


def _sizes(shape: Shape) -> Shape:
    return shape


def _gathered(_index: Tensor, per: int, count: int) -> Shape:
    return (count,) if per == 1 else (count, per)


def _promoted(x: Tensor, y: Tensor, op: Any = None) -> Any:
    return bit_kind(op, x.kind, y.kind) if op is not None and is_bits(op) else dtypes.of_sides(x.kind, y.kind)


_NOTATION: Final[dict[str, Any]] = {
    "free": _free, "promoted": _promoted, "reduced": _reduced, "grid": _grid, "sizes": _sizes, "gathered": _gathered,
    "float32": dt.float32, "uint32": dt.uint32,
}  # fmt: skip
"""The functions of the table's expressions."""


def _conversion(declared: Field, what: str) -> str | None:
    """The code that makes a value as ``declared`` of an argument that is no tensor; None: it is one already."""
    name = declared.name
    if declared.symbol is enums.engine:
        return f"{name} = engine_of({name})"
    if declared.symbol is Op:
        return f"if {name} is not None: {name} = operator_of({name}, {what!r}, {name!r})"
    kinds = () if declared.symbol is not None or tuple in declared.types else (bool, float, int)
    kind = next((kind for kind in kinds if kind in declared.types), None)
    return None if kind is None else f"if {name} is not None: {name} = {kind.__name__}({name})"


def _engine_of(value: Any) -> enums.engine:
    return value if isinstance(value, enums.engine) else enums.engine.unknown


class _Maker:
    """One function of ``neuronxcc.nki.isa``: the row of the table, and how its arguments become operands."""

    def __init__(self, row: Function) -> None:
        self.row = row
        self.what = f"nisa.{row.name}"
        self.mnemonic = _INSTRUCTION.get(row.name, row.name)
        fields = {f.name: f for f in REGISTRY[self.mnemonic].fields if f.name != "dst" or not row.shape}
        declared = [fields[name] for name in row.parameters if name in fields]
        preset = [f for f in fields.values() if f.name == "reduce_cmd" and f not in declared]
        inputs = [f for f in declared if f.role is Role.IN and row.name not in _IN_ANY_MEMORY]
        self.tiles = [f.name for f in inputs if not f.immediate]
        self.written = [f.name for f in declared if f.role is Role.OUT and f.name != "dst"]
        values = [made for f in declared if f.role is None and (made := _conversion(f, self.what)) is not None]
        self.conversions = [*map(self._conversion_of_tile, self.tiles), *values]
        self.operands = [
            (f.name, f.default is inspect.Parameter.empty) for f in (*declared, *preset) if f.name != "dst"
        ]
        # Operands over the elements of the result; the others, one or eight elements for each partition, stay columns.
        self.sources = [name for name in self.tiles if not row.shape or name in row.shape]
        columns = {f.name for f in inputs if f.name not in self.sources} | set(self.written)
        self.columns = [name for name in row.parameters if name in columns and row.name not in WHOLE]
        self.scope = _NOTATION | {"joint": functools.partial(joint_shape, self.what)}
        self.shape = compile(row.shape or "None", self.what, "eval")
        self.kind = compile(row.dtype.replace(".dtype", ".kind") or "None", self.what, "eval")
        self.direct = _is_in_sbuf if row.name in _DIRECT_TO_SBUF else None
        self.instruction = getattr(isa, self.mnemonic)
        self.prepare, self.whole = PREPARED.get(row.name), WHOLE.get(row.name)
        self.emitter = self._emitter()

    def _conversion_of_tile(self, name: str) -> str:
        tile = f"tile_of({name}, {self.what!r}, {name!r})"
        return f"{name} = in_sbuf({tile})" if self.row.name in _IN_SBUF else f"{name} = {tile}"

    def call(self, a: Operands) -> Any:
        """One call, with the values of all parameters, converted."""
        row, given = self.row, vars(a)
        if self.prepare is not None:
            self.prepare(a)
        if self.whole is not None:
            return self.whole(a)
        for name in self.columns:
            given[name] = self._column(a, name)
        emit = self.emitter
        if not row.shape:
            return emit(a.dst.settle(), a)
        shape, dtype = eval(self.shape, self.scope, given), given.get("dtype")
        kind = eval(self.kind, self.scope, given) if dtype is None else dt.of(dtype)
        return Tensor.wait(Pending(shape, kind, lambda dst: emit(dst, a), name=row.result, direct=self.direct))

    def _column(self, a: Operands, name: str) -> Tensor | float | None:
        """The operand ``name`` of one element per partition, or a number; None if there is none."""
        value = getattr(a, name)
        if value is None:
            return None
        if name in self.written or name in self.tiles:
            return tile_of(value, self.what, name)
        operand = operand_of(value, self.what, name)
        # Operators of bits take the integers of a column as they are.
        exact = name in _IN_ANY_DTYPE or ("op0" in vars(a) and is_bits(a.op0))
        if not isinstance(operand, Tensor):
            return operand if exact else float(operand)
        tile = operand if exact else converted(operand, dt.float32)
        return tile.reshape((tile.shape[0], 1)) if tile.ndim != 2 and tile.size == tile.shape[0] else tile

    def _emitter(self) -> Callable[[Tensor, Operands], None]:
        """The function that records all that writes the result."""
        name = self.row.name
        if name in EMITTED:
            return EMITTED[name]
        return self._of_tiles if name in _OF_TILES or name in _IN_SBUF else self._over_elements

    def _over_elements(self, dst: Tensor, a: Operands) -> None:
        """Record an instruction over the elements that the mask leaves."""
        given, compute = vars(a), COMPUTED.get(self.row.name)
        columns = [name for name in self.columns if isinstance(given[name], Tensor)]
        names = self.sources + columns
        fixed = self._operands(a) if compute is None else given

        def over(place: Access, accesses: list[Access]) -> None:
            for each in self.written:
                if each in columns:
                    given[each].place.before_write(accesses[names.index(each)])
            operands = {**fixed, **dict(zip(names, accesses, strict=True))}
            if compute is None:
                self.instruction(place, **operands)
            else:
                compute(place, Operands(**operands))

        tiles = [given[name] for name in self.sources]
        elementwise(dst, tiles, a.mask, over, [given[name] for name in columns])

    def _operands(self, a: Operands) -> dict[str, Any]:
        """All operands of the instruction that are given."""
        given = vars(a)
        return {name: given[name] for name, required in self.operands if required or given.get(name) is not None}

    def _of_tiles(self, dst: Tensor, a: Operands) -> None:
        """Record an instruction of tiles as they are; a mask cuts their partitions and the elements of the first."""
        first, *others = self.sources
        source = cut(getattr(a, first), a.mask, self.what)
        rows = source.shape[0]
        into = written(dst if dst.shape[0] == 1 else dst[0:rows])
        operands = self._operands(a) | {first: source.access}
        operands |= {name: getattr(a, name)[0:rows].access for name in (*others, *self.columns)}
        at_start(into, lambda place: self.instruction(place, **operands))


_SCOPE: Final[dict[str, Any]] = {
    "Operands": Operands, "amax": np.amax, "engine_of": _engine_of, "flush": flush, "in_sbuf": in_sbuf,
    "operator_of": operator_of, "reduce_cmd": enums.reduce_cmd, "tile_of": tile_of,
}  # fmt: skip
"""Names in the text of a function: the defaults of its signature, and the conversions of its arguments."""


def _is_in_sbuf(target: Tensor) -> bool:
    return target.buffer is Buffer.sbuf


def _function(row: Function) -> Callable[..., Any]:
    """The public function of a row: a text with its signature, as kernels, ``help()`` and error messages show it."""
    maker = _Maker(row)
    scope = _SCOPE | {"call": maker.call}
    signature = f"{row.signature.removesuffix(')')}, **_)"
    arguments = ", ".join(f"{name}={name}" for name in row.parameters)
    if "mask" not in row.parameters:
        arguments += ", mask=None"
    # A result that waits is recorded before what an instruction without a result writes.
    lines = [] if row.shape else ["flush()"]
    lines += [*maker.conversions, f"return call(Operands(what={maker.what!r}, {arguments}))"]
    text = "\n    ".join([f"def {signature}:", *lines])
    exec(compile(text, __file__, "exec"), scope)  # our own text, from the table and the declaration
    public = scope[row.name]
    public.__module__, public.__doc__ = __name__, row.text
    # An unused result of a call is reported, unless the function writes an argument, too.
    public.__annotations__["return"] = "None" if not row.shape else "Any" if maker.written else "Tensor"
    return public


NAMES: Final[dict[str, Any]] = {
    **{name: _function(row) for name, row in FUNCTIONS.items()},
    "builtin_custom_op": builtin_custom_op,
    "get_nc_version": isa.get_nc_version,
    **{f"{name}_engine": enums.engine[name] for name in ("tensor", "vector", "scalar", "gpsimd", "unknown", "sync")},
    "engine": enums.engine,
    "reduce_cmd": enums.reduce_cmd,
    "dge_mode": enums.dge_mode,
    "oob_mode": enums.oob_mode,
    "nc_version": enums.nc_version,
    "dma_engine": enums.engine.dma,
}
"""Everything that ``neuronxcc.nki.isa`` shows."""
