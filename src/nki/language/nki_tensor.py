"""``NkiTensor``: the tensor that a kernel holds. It has an access, and its views have others; none copies elements.

The methods say what a view is; ``indexing``, ``shaping``, ``rearranging``, ``patterns`` and ``dynamic`` compute its
access.
"""

from __future__ import annotations

from typing import Any, NoReturn

from nki.base.element_types import DType
from nki.base.errors import TensorOperatorError
from nki.base.python_operators import refuse_operators
from nki.base.source import here
from nki.base.warning import warn_at
from nki.frontend.builder import current
from nki.ir.loop import VirtualRegister
from nki.ir.recorder import is_recording
from nki.ir.types import Access, Buffer, Tensor, is_row_indexed
from nki.ir.value_printer import values
from nki.ir.windows import is_contiguous
from nki.isa.tables.activations import ACTIVATIONS
from nki.isa.tables.alu_operators import TABLE
from nki.language import dynamic, indexing, patterns, rearranging, shaping
from nki.language.assignment import assign

_new = object.__new__
_LATE = "which has values only when the kernel runs"


class NkiTensor:
    """A tensor of a kernel: ``shape``, ``dtype``, ``buffer``, ``name``, ``strides`` and ``offset`` (in elements).

    Element ``(i, j, …)`` is the one at ``offset + i * strides[0] + j * strides[1] + …`` of the storage, which all views
    of a tensor share. On chip, dimension 0 is the partition: no view moves, merges or removes it, and a view keeps at
    least two dimensions. In HBM dimension 0 is like the others. Negative dimensions count from the last. A view that
    the layout does not allow raises :class:`ViewError`, an index outside the tensor :class:`IndexRangeError`, and an
    index known only at run time, where there can be none, :class:`DynamicIndexError`; nothing is clipped.
    """

    __slots__ = ("access",)

    def __init__(self, access: Access) -> None:
        self.access = access

    @classmethod
    def of(cls, tensor: Tensor) -> NkiTensor:
        """All of ``tensor``."""
        whole = _new(cls)
        whole.access = Access.whole(tensor)
        return whole

    @property
    def shape(self) -> tuple[int, ...]:
        return self.access.shape

    @property
    def dtype(self) -> DType:
        return self.access.dtype

    @property
    def buffer(self) -> Buffer:
        return self.access.tensor.buffer

    @property
    def name(self) -> str:
        return self.access.tensor.name

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps in elements of ``dtype``."""
        return self.access.strides

    @property
    def offset(self) -> int:
        """The first element, in elements of ``dtype`` from the start of the storage."""
        return self.access.offset

    @property
    def data(self) -> NkiTensor:
        """The tensor itself, as ``data`` of a grid of tiles is the tensor that the grid selects."""
        if is_recording():
            current("t.data").dialect.require("nki.language.NkiTensor.data", f"{self.name}.data")
        return self

    @property
    def base_tensor(self) -> NkiTensor:
        """All of the storage that this views; as the public library asks for it."""
        return NkiTensor.of(self.access.tensor)

    @property
    def ndim(self) -> int:
        return len(self.access.shape)

    @property
    def size(self) -> int:
        """Number of elements, repeated ones counted each time."""
        return self.access.size

    def __repr__(self) -> str:
        text = f"NkiTensor {self.name} {self.dtype}{list(self.shape)} in {self.buffer.value}"
        access = self.access
        if access.dynamic is not None:
            text = f"{text} at {access.dynamic.source.name}"
        shown = "" if is_row_indexed(access) else values(access)
        return f"{text}\n{shown}" if shown else text

    def __getitem__(self, key: Any) -> NkiTensor:
        view = _new(NkiTensor)  # a call of the class takes longer, and kernels index for each operand
        view.access = indexing.index(self.access, key)
        return view

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Elements ``start`` to ``end`` (exclusive) of dimension ``dim``, every ``step``-th.

        ``0 <= start < end <= shape[dim]`` and ``step >= 1``; not dimension 0 of a view that a column of indices chose.
        """
        return NkiTensor(indexing.slice_of(self.access, dim, start, end, step))

    def select(self, dim: int, index: int | NkiTensor | VirtualRegister) -> NkiTensor:
        """Element ``index`` of dimension ``dim``, which goes (on chip as in ``t[…]``: dimension 0 stays, with size 1).

        ``index`` is an integer from 0, or is found at run time in a register or a (1, 1) integer tile in SBUF. A view
        has one run-time index, and on chip it does not choose partitions.
        """
        return NkiTensor(indexing.select(self.access, dim, index))

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Row ``vector_offset[p]`` as row ``p``, for each of the P rows of the column: (P, the other dimensions).

        Only in HBM and of dimension 0; ``vector_offset`` is a (P, 1) integer tile in SBUF. The rows lie where the
        indices say, so ``strides[0]`` is 0 and dimension 0 stays as it is in views of the result.
        """
        return NkiTensor(dynamic.vector_select(self.access, dim, vector_offset))

    def permute(self, dims: tuple[int, ...]) -> NkiTensor:
        """The dimensions in another order: the ``i``-th is ``dims[i]``. On chip, dimension 0 stays first."""
        return NkiTensor(shaping.permute(self.access, dims))

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """Dimension ``dim``, which has size 1, repeated ``size`` times. Not the partitions on chip."""
        return NkiTensor(shaping.broadcast(self.access, dim, size))

    def expand_dim(self, dim: int) -> NkiTensor:
        """A new dimension of size 1 at position ``dim``: 0 to ``ndim``, on chip from 1."""
        return NkiTensor(shaping.expand_dim(self.access, dim))

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Dimension ``dim``, which has size 1, removed. On chip not dimension 0, and two dimensions remain."""
        return NkiTensor(shaping.squeeze_dim(self.access, dim))

    def reshape(self, *sizes: Any, shape: Any = None) -> NkiTensor:
        """The same elements in row-major order in another shape, given as a tuple or as several integers.

        On chip dimension 0 keeps its size. Raises :class:`ViewError` for another number of elements, or a layout that
        would need a copy.
        """
        requested = sizes if shape is None else (*sizes, shape)
        return NkiTensor(shaping.reshape(self.access, requested[0] if len(requested) == 1 else requested))

    def reshape_dim(self, dim: int, shape: tuple[int, ...]) -> NkiTensor:
        """Dimension ``dim`` split into dimensions of ``shape``; one may be -1. Not the partitions on chip."""
        return NkiTensor(shaping.reshape_dim(self.access, dim, shape))

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Dimensions ``start_dim`` to ``end_dim``, both included, merged; they must be contiguous among themselves."""
        return NkiTensor(shaping.flatten_dims(self.access, start_dim, end_dim))

    def rearrange(
        self, src_pattern: tuple[Any, ...], dst_pattern: tuple[Any, ...], fixed_sizes: dict[str, int] | None = None
    ) -> NkiTensor:
        """Dimensions by name, in a new order: ``t.rearrange(("p", ("h", "w")), ("p", "w", "h"), {"h": 4})``.

        A tuple in ``src_pattern`` splits a dimension, all sizes but one being in ``fixed_sizes``; one in
        ``dst_pattern`` merges dimensions, which must be contiguous among themselves.
        """
        return NkiTensor(rearranging.rearrange(self.access, src_pattern, dst_pattern, fixed_sizes))

    def view(self, dtype: Any) -> NkiTensor:
        """The same bytes as elements of ``dtype``; the last dimension grows or shrinks with the element's size.

        For another element size the last dimension must be contiguous, its bytes a multiple of the new size, start and
        steps too, and no index is added at run time.
        """
        return NkiTensor(patterns.view(self.access, dtype))

    reinterpret_cast = view

    def ap(
        self,
        pattern: Any,
        offset: int | None = None,
        scalar_offset: NkiTensor | VirtualRegister | None = None,
        vector_offset: NkiTensor | None = None,
        indirect_dim: int = 0,
        dtype: DType | None = None,
    ) -> NkiTensor:
        """The elements of the storage that ``pattern`` names: ``[[step, count], …]``, outermost dimension first.

        Steps, counts and ``offset`` are in elements of ``dtype`` (by default the view's own), and count from the start
        of the storage, whatever the view: only its offset is inherited, when ``offset`` is None. On chip the first pair
        is the partitions: its step is the number of elements in a partition of the storage (any for one partition);
        the others stay within it, and there are at most five. If the step is instead the number of elements that the
        view, dense in its rows, has in a partition, then all of the pattern counts in the elements of the view.
        The element at run-time index 0 must be inside.

        ``scalar_offset``: a register or (1, 1) tile, an index into dimension ``indirect_dim`` of this view (not of the
        pattern) that is added to the start. ``vector_offset``: a (P, 1) tile, which gives each of the P rows its index
        into dimension 0, in HBM only; the step of the first pair is ignored. A (128, N) tile is for
        ``nisa.dma_transpose``: the indices go down its first column, then down the next.
        """
        return NkiTensor(patterns.ap(self.access, pattern, offset, scalar_offset, vector_offset, indirect_dim, dtype))

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """The elements of every partition at the offsets in ``index``: (partitions, ``num_elem``); gen4.

        ``index``: a (partitions, K) tile in SBUF, uint16, uint32 or int32, in which each group of 16 partitions (on the
        Tensor engine 32) has a list of offsets, down the group's partitions first. An offset counts elements of this
        view's free dimensions. ``num_elem``: how long the lists are, by default all of the index if that is one group.
        Instructions gather from such a view, or scatter to it. The rest is in docs/language.md, Tensor indirection.
        """
        return NkiTensor(dynamic.indirect(self.access, index, num_elem))

    def get_pattern(self) -> list[list[int]]:
        """``[[step, count], …]`` of the view's dimensions, as ``ap`` takes it."""
        return patterns.get_pattern(self.access)

    def is_contiguous(self) -> bool:
        """True if the elements (on chip: of a partition) lie one behind the other in row-major order."""
        return is_contiguous(self.access)

    def is_indirect(self) -> bool:
        """True if an index known only at run time is part of the view's address."""
        return self.access.dynamic is not None

    def __setitem__(self, key: Any, value: NkiTensor) -> None:
        """``t[…] = tile``: ``nisa.tensor_copy`` on chip, ``nisa.dma_copy`` where one of the two is in HBM."""
        assign(indexing.index(self.access, key), value)

    def __len__(self) -> int:
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        """Kernels ask ``tensor == None``. Elements are compared with ``nl.equal``."""
        return False if other is None else self._refuse_comparison("==", "equal")

    def __ne__(self, other: object) -> bool:
        return True if other is None else self._refuse_comparison("!=", "not_equal")

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        where = here()
        if where.span is None:
            raise TensorOperatorError(
                f"'{self.name}' used as a condition outside a kernel", fix="test its shape, or `tensor is not None`"
            )
        message = f"'{self.name}' is used as a condition, which is true of every tensor whatever it holds: its values "
        warn_at(where.span, message + "exist only when the kernel runs; write `is not None` if that is meant")
        return True

    def __iter__(self) -> NoReturn:
        key = "i:i + 1" if self.ndim == 2 else "i"
        raise TensorOperatorError(
            f"iteration over tensor '{self.name}' {self.shape}",
            fix=f"count, and slice: `for i in range({self.shape[0]})`, and in the loop `{self.name}[{key}]`",
        )

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TensorOperatorError(
            f"'{self.name}' used as a NumPy array inside a kernel",
            fix="use the nisa instructions; NumPy works only on values known at compile time",
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *_: object, **__: object) -> NoReturn:
        self._refuse_numpy(ufunc.__name__)

    def __array_function__(self, function: Any, *_: object) -> NoReturn:
        self._refuse_numpy(function.__name__)

    def _refuse_numpy(self, name: str) -> NoReturn:
        if name in _REDUCED:
            fix = f"use nisa.tensor_reduce(dst, nl.{_REDUCED[name]}, tile, axis=1)"
        elif name in ACTIVATIONS:
            fix = f"use nisa.activation(dst, nl.{name}, tile)"
        elif name in TABLE:
            fix = f"use nisa.tensor_tensor(dst, a, b, nl.{name}), or nisa.tensor_scalar for a tile and a number"
        else:
            fix = "use the nisa instructions; NumPy works only on values known at compile time"
        raise TensorOperatorError(f"np.{name} on tensor '{self.name}' {self.shape}, {_LATE}", fix=fix)

    def _refuse_comparison(self, sign: str, name: str) -> NoReturn:
        raise TensorOperatorError(
            f"Python's {sign} on tensor '{self.name}' {self.shape}, {_LATE}",
            fix=f"write nl.{name}(a, b), which compares the elements; `a is b` asks if both names are one tensor",
        )

    def _refuse(self, sign: str) -> NoReturn:
        raise TensorOperatorError(
            f"Python's {sign} on tensor '{self.name}' {self.shape}",
            fix="use a function of nl or an instruction of nisa",
        )


_REDUCED = {"sum": "add", "prod": "multiply", **dict.fromkeys(("max", "amax"), "maximum"),
            **dict.fromkeys(("min", "amin"), "minimum")}  # fmt: skip
"""NumPy's reductions and the operator of each."""


refuse_operators(NkiTensor)

__all__ = ["NkiTensor"]
