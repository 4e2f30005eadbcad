"""``nki.tensor``: the tensor of a Beta 1 kernel, and results that wait for their destination.

A function returns a tensor with instructions that are not recorded yet. An assignment ``t[…] = f(…)`` records them with
``t`` as destination; any other use, and the next function, gives the result a tile of its own first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn, cast

import numpy as np

from nki.base import element_types as dt
from nki.base.assigned_name import assigned_name
from nki.base.beta1_errors import Beta1FlowError, Beta1IndexError, Beta1OperandError, Beta1TensorError
from nki.base.element_types import DType
from nki.base.python_operators import BINARY, EQUALITIES, ORDERINGS, UNARY
from nki.base.source import here
from nki.beta1 import dtypes
from nki.beta1.block_storage import Place, Storage
from nki.beta1.index import Index, Mask
from nki.beta1.mask_regions import Region, region
from nki.beta1.recording_place import recorded_at
from nki.beta1.view import View, check_bounds, describe, part, strides_of
from nki.beta1.view_plans import indexed
from nki.frontend.builder import Builder, current
from nki.ir.types import Access, Buffer, row_major
from nki.ir.value_printer import values

Shape = tuple[int, ...]


class Pending:
    """A result before its instructions: ``emit(dst)`` records them, writing to the tensor ``dst`` of the shape."""

    __slots__ = ("buffer", "direct", "dtype", "emit", "name", "product", "shape", "where")

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        emit: Callable[[Tensor], None],
        *,
        name: str = "tile",
        buffer: Buffer = Buffer.sbuf,
        direct: Callable[[Tensor], bool] | None = None,
        product: Callable[[Tensor], bool] | None = None,
    ) -> None:
        self.where = here()
        self.name = assigned_name(self.where, name)
        self.shape = shape
        self.dtype = dtype
        self.emit = emit
        self.buffer = buffer
        self.direct = direct
        """True if the instructions may write to this destination themselves; None: to SBUF and PSUM."""
        self.product = product
        """Of a matrix product: add it to the destination; False: nothing is recorded, a part of that holds no sum."""


class Tensor:
    """A tensor of a kernel: ``shape``, ``dtype`` (NumPy's), ``ndim``, ``itemsize``."""

    __slots__ = ("_pending", "_storage", "_view", "is_new", "mask")
    __array_ufunc__: Any = None

    def __init__(self, storage: Storage | None, view: View | None, pending: Pending | None = None) -> None:
        self._storage = storage
        self._view = view
        self._pending = pending
        self.is_new = False
        """The tile is the own one of a result that is being recorded: nothing in it has to stay."""
        self.mask: Mask | bool | None = None
        """The condition of an operand that is indexed with a comparison."""

    @classmethod
    def around(cls, access: Access) -> Tensor:
        """The tensor of an access, such as an argument of the kernel."""
        view = View(0, (), access.offset, access.shape, access.strides, access.dtype)
        return cls(Storage.around(access.tensor), view)

    @classmethod
    def whole(cls, storage: Storage) -> Tensor:
        """All of ``storage``."""
        steps = row_major(storage.blocks)
        blocks = tuple(zip(storage.blocks, steps, strict=True))
        return cls(storage, View(0, blocks, 0, storage.shape, row_major(storage.shape), storage.dtype))

    @classmethod
    def wait(cls, pending: Pending) -> Tensor:
        """The result ``pending``; one that waits already gets its tile."""
        flush()
        result = cls(None, None, pending)
        state_of(current("a function of NKI")).waiting = result
        return result

    # What the lowering asks

    @property
    def pending(self) -> Pending | None:
        return self._pending

    def take(self) -> Pending:
        """The waiting result, which an assignment is about to record."""
        pending, self._pending = self._pending, None
        assert pending is not None
        state = state_of(current("a function of NKI"))
        if state.waiting is self:
            state.waiting = None
        return pending

    def become(self, other: Tensor) -> None:
        """Be ``other`` from now on."""
        self._storage, self._view, self._pending = other._storage, other._view, None

    def settle(self) -> Tensor:
        """The tensor itself, with a tile of its own if it was a waiting result."""
        if self._pending is not None:
            pending = self.take()
            storage = Storage(pending.name, (), pending.shape, pending.dtype, pending.buffer, pending.where)
            tile = Tensor.whole(storage)
            tile.is_new = True
            with recorded_at(pending.where):
                pending.emit(tile)
            self._storage, self._view = tile._storage, tile._view
        return self

    @property
    def storage(self) -> Storage:
        storage = (self if self._pending is None else self.settle())._storage
        assert storage is not None
        return storage

    @property
    def base(self) -> View:
        """The view of the storage."""
        view = (self if self._pending is None else self.settle())._view
        assert view is not None
        return view

    @property
    def kind(self) -> DType:
        """The compiler's dtype."""
        return self._pending.dtype if self._pending is not None else self.base.dtype

    @property
    def buffer(self) -> Buffer:
        return self._pending.buffer if self._pending is not None else self.storage.buffer

    @property
    def place(self) -> Place:
        """The tile. Raises :class:`Beta1IndexError` for a block tensor."""
        view = self.base
        if view.blocks:
            raise Beta1IndexError(
                f"failed_to_infer_tile_from_local_tensor: {describe(self.storage.name, view)} has block dimensions, "
                "and is used as one tile",
                fix="use one tile at a time: index each block dimension in a loop",
            )
        return self.storage.place(view.block)

    def bare(self, over: Region | None = None) -> Access:
        """The access, of ``over`` if given, without a note that it is read or written."""
        view, access = self.base, self.unchecked
        if view.bounds:
            check_bounds(self.storage.name, view, over or region(None, view.shape))
        return access if over is None or over.is_whole or over.box is None else part(access, over.box)

    @property
    def unchecked(self) -> Access:
        """The access, which may leave the tensor: the caller checks its bounds."""
        view, place = self.base, self.place
        return Access(place.tensor, view.offset, view.shape, view.strides, view.dtype, view.dynamic)

    @property
    def access(self) -> Access:
        """The access, to be read."""
        access = self.bare()
        self.place.before_read(access)
        return access

    # What kernels ask

    @property
    def shape(self) -> Shape:
        if self._pending is not None:
            return self._pending.shape
        view = self.base
        return (*(size for size, _ in view.blocks), *view.shape) if view.blocks else view.shape

    @property
    def dtype(self) -> Any:
        return dtypes.surface(self.kind)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.kind.itemsize

    @property
    def name(self) -> str:
        return self._pending.name if self._pending is not None else self.storage.name

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Tensor:
        if isinstance(key, Mask | bool):
            return self._masked(key)
        view, storage = self.base, self.storage
        if view.bounds:
            check_bounds(storage.name, view, region(None, view.shape))
        return Tensor(storage, indexed(storage.name, view, key, on_chip=storage.buffer.on_chip))

    def _masked(self, mask: Mask | bool) -> Tensor:
        if mask is True:
            return self
        masked = Tensor(self.storage, self.base)
        masked.mask = mask if self.mask is None else mask & self.mask
        return masked

    def __setitem__(self, key: Any, value: Any) -> None:
        target = self[key]
        if isinstance(value, Tensor) and value.pending is None and _same(target, value):
            return  # the end of t[…] += v, or an assignment to itself
        operations["assign"](target, value)

    def reshape(self, *shape: Any, **named: Any) -> Tensor:
        """The same elements in another shape: in HBM any, on chip with the same partitions."""
        shape = shape or (named["shape"],)
        sizes = _sizes(shape[0] if len(shape) == 1 and not isinstance(shape[0], int | np.integer) else shape)
        view = self.base
        if -1 in sizes:
            rest = -math.prod(sizes)
            sizes = tuple(self.size // rest if n == -1 else n for n in sizes)
        if math.prod(sizes) != self.size:
            raise Beta1TensorError(
                f"reshape of {describe(self.storage.name, view)} to {sizes}: the numbers of elements differ",
                fix="give a shape with as many elements",
            )
        return Tensor(self.storage, _reshaped(self.storage, view, sizes))

    def broadcast_to(self, shape: Any) -> Tensor:
        """The tensor with dimensions of size 1 repeated."""
        return operations["broadcast_to"](self, _sizes(shape))

    def expand_dims(self, axis: int) -> Tensor:
        """A view with a new dimension of size 1 at ``axis``."""
        own = range(len(self.base.shape))
        at = axis + len(own) + 1 if axis < 0 else axis
        return Tensor(self.storage, self.base.arranged((*own[:at], None, *own[at:])))

    def astype(self, dtype: Any) -> Tensor:
        """A copy with another dtype."""
        return operations["copy"](self, dtype=dtype)

    def view(self, dtype: Any) -> Tensor:
        """The same bits with another dtype of the same size."""
        kind, view = dt.of(dtype), self.base
        old, new = view.dtype.itemsize, kind.itemsize
        if old == new:
            return Tensor(self.storage, replace(view, dtype=kind))
        last = view.shape[-1] * old
        fits = view.strides[-1] == 1 and last % new == 0 and all(s * old % new == 0 for s in view.strides[:-1])
        if not fits or view.offset * old % new:
            raise Beta1TensorError(
                f"view of {describe(self.storage.name, view)} as {kind}: its last dimension has {last} bytes",
                fix="view a tile with a last dimension that is contiguous and a multiple of the new size",
            )
        strides = (*(s * old // new for s in view.strides[:-1]), 1)
        shape = (*view.shape[:-1], last // new)
        return Tensor(
            self.storage, replace(view, dtype=kind, shape=shape, strides=strides, offset=view.offset * old // new)
        )

    def assert_shape(self, shape: Any) -> Tensor:
        """The tensor itself. Raises :class:`Beta1TensorError` if it has another shape."""
        sizes = _sizes(shape)
        if self.shape != sizes:
            raise Beta1TensorError(
                f"annotation_shape_mismatch: '{self.name}' has the shape {self.shape}, not {sizes}",
                fix="correct the shape",
            )
        return self

    def as_tile(self) -> Tensor:
        """The tensor itself."""
        return self

    def transpose(self, *_axes: Any) -> NoReturn:
        """Refused: tensors of Beta 1 have no such method."""
        raise Beta1OperandError(f"'{self.name}' has no method transpose", fix="use nl.transpose or nisa.nc_transpose")

    def __iter__(self) -> NoReturn:
        raise Beta1FlowError(
            f"dynamic_control_flow: iteration over the tensor '{self.name}' {self.shape}",
            fix="iterate over nl.affine_range of its size, and index it",
        )

    def __bool__(self) -> NoReturn:
        raise Beta1FlowError(
            f"ambiguous_tensor_truth_value: the tensor '{self.name}' {self.shape} is used as a condition",
            fix="use nl.where, or a mask",
        )

    __hash__ = object.__hash__

    def __index__(self) -> NoReturn:
        raise Beta1FlowError(
            f"dynamic_control_flow: the tensor '{self.name}' {self.shape} is used as a number of Python",
            fix="compute the number before the kernel, and pass it as an argument",
        )

    def __repr__(self) -> str:
        text = f"tensor {self.name} {self.kind}{list(self.shape)} in {self.buffer.value}"
        if self._view is None or self._view.blocks or self._view.bounds:
            return text
        shown = values(self.access)
        return f"{text}\n{shown}" if shown else text


operations: Final[dict[str, Callable[..., Any]]] = {}
"""Functions that the methods above call; modules that import this one add them."""


def _sizes(shape: Any) -> Shape:
    entries = cast("Any", shape if isinstance(shape, tuple | list) else (shape,))
    return tuple(int(n) for n in entries)


def _same(a: Tensor, b: Tensor) -> bool:
    if a.storage is not b.storage:
        return False
    x, y = a.base, b.base
    one = [(s, n) for s, n in zip(x.strides, x.shape, strict=True) if n != 1]
    other = [(s, n) for s, n in zip(y.strides, y.shape, strict=True) if n != 1]
    return (x.block, x.blocks, x.offset, one, x.dtype, x.dynamic) == (
        y.block, y.blocks, y.offset, other, y.dtype, y.dynamic,
    )  # fmt: skip


def _reshaped(storage: Storage, view: View, sizes: Shape) -> View:
    old = (*(size for size, _ in view.blocks), *view.shape)
    if view.blocks:
        rest = math.prod(view.shape)
        at = next(
            (i for i in range(len(sizes) + 1) if math.prod(sizes[i:]) == rest and sizes[i : i + 1] == view.shape[:1]),
            None,
        )
        steps = row_major(tuple(size for size, _ in view.blocks))
        base = view.blocks[-1][1]
        if at is None or [step for _, step in view.blocks] != [s * base for s in steps]:
            raise Beta1TensorError(
                f"reshape of the block tensor '{storage.name}' {old} to {sizes} would take its tiles apart",
                fix="keep the partition dimension",
            )
        inner = _reshaped(storage, replace(view, blocks=()), sizes[at:])
        blocks = tuple(zip(sizes[:at], (s * base for s in row_major(sizes[:at])), strict=True))
        return replace(inner, blocks=blocks)
    if storage.buffer.on_chip and sizes[:1] != view.shape[:1]:
        raise Beta1TensorError(
            f"reshape of the tile '{storage.name}' {old} to {sizes} would change its partitions",
            fix="keep the first dimension; nl.transpose copies a column into a row, and a row into a column",
        )
    strides = strides_of(view.shape, view.strides, sizes)
    if strides is None:
        raise Beta1TensorError(
            f"reshape of the view {old} of '{storage.name}' to {sizes}: its elements are too far apart",
            fix="reshape the whole tensor, and index the result",
        )
    return replace(view, shape=sizes, strides=strides, bounds=())


@dataclass(slots=True, eq=False, repr=False)
class KernelState:
    """State of the functions of Beta 1 while one program is recorded."""

    waiting: Tensor | None = None
    """The result with instructions that are not recorded yet; there is at most one."""
    ones: dict[DType, Tensor] = field(default_factory=dict[DType, Tensor])
    """Tiles of ones, by dtype."""
    constants: dict[object, Tensor] = field(default_factory=dict[object, Tensor])
    """Tiles of constants in SBUF, by shape, dtype and contents."""
    with_static_descriptors: int = 0
    """Statements of the body that have static descriptors already."""


def state_of(builder: Builder) -> KernelState:
    """The state of the program that ``builder`` records."""
    state = builder.dialect_state
    if not isinstance(state, KernelState):
        builder.dialect_state = state = KernelState()
    return state


def flush() -> None:
    """Give the waiting result a tile of its own."""
    waiting = state_of(current("a function of NKI")).waiting
    if waiting is not None:
        waiting.settle()


class RuntimeIndex:
    """``tile + index``: an element of a tile, known at run time, plus an index of known integers."""

    __slots__ = ("extra", "tensor")

    def __init__(self, tensor: Tensor, extra: Index) -> None:
        self.tensor = tensor
        self.extra = extra

    @property
    def access(self) -> Access:
        return self.tensor.access

    @property
    def shape(self) -> Shape:
        return tuple(np.broadcast_shapes(self.tensor.shape, self.extra.shape))

    def __add__(self, other: Any) -> RuntimeIndex:
        return RuntimeIndex(self.tensor, self.extra + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> RuntimeIndex:
        return RuntimeIndex(self.tensor, self.extra - other)


def _operator(name: str, *, swapped: bool = False) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        if isinstance(other, Index):
            if name in ("add", "subtract") and not (swapped and name == "subtract"):
                return RuntimeIndex(self, other if name == "add" else -other)
            return NotImplemented
        sides = (other, self) if swapped else (self, other)
        return operations["binary"](name, *sides, by_operator=True)

    return method


def _in_place(name: str) -> Any:
    def method(self: Tensor, other: Any) -> Any:
        return operations["update"](name, self, other)

    return method


def _unary(name: str) -> Any:
    def method(self: Tensor) -> Any:
        return operations["unary"](name, self)

    return method


for _row in BINARY:
    # Beta 1 has a function for `//`, which the language of today has not, and none for `@`.
    if _function := "floor_divide" if _row.sign == "//" else _row.function:
        setattr(Tensor, f"__{_row.method}__", _operator(_function))
        setattr(Tensor, f"__r{_row.method}__", _operator(_function, swapped=True))
        setattr(Tensor, f"__i{_row.method}__", _in_place(_function))
for _row in (*ORDERINGS, *EQUALITIES):
    setattr(Tensor, f"__{_row.method}__", _operator(_row.function))
for _row in UNARY:
    if _row.function:
        setattr(Tensor, f"__{_row.method}__", _unary(_row.function))
setattr(Tensor, "__abs__", _unary("abs"))  # noqa: B010  # as the others


def _compared(name: str, otherwise: bool) -> Any:
    """``==`` and ``!=``; kernels also ask ``t == None``."""
    compute = _operator(name)

    def method(self: Tensor, other: Any) -> Any:
        return otherwise if other is None else compute(self, other)

    return method


Tensor.__eq__ = _compared("equal", False)
Tensor.__ne__ = _compared("not_equal", True)
