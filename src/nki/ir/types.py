"""Tensors, and the accesses through which instructions read and write them.

A :class:`Tensor` is storage: a name, a shape, an element type and the memory it lives in. Storage is addressed
row-major in elements; on chip the first dimension is the partition, so the partition step of a whole tensor is its free
size (NKI access-pattern guide). An :class:`Access` is what an instruction's operand is: offset, shape and one step per
dimension into one tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Protocol, TypeVar

from nki.base.element_types import DType
from nki.base.source import Span
from nki.ir.constant import Constant
from nki.ir.layout import DENSE, Layout


class Buffer(Enum):
    """The memories of a NeuronCore. ``register`` holds engine state that instructions pass on (some words a lane), and
    the scalar registers of the sequencers (one word each).
    """

    sbuf = "sbuf"
    psum = "psum"
    hbm = "hbm"
    private_hbm = hbm  # another name of it (NKI reference, nki.language.hbm)
    shared_hbm = "shared_hbm"
    register = "register"

    # Members are asked for these on every instruction, so they are plain attributes rather than properties.
    word: str
    on_chip: bool
    is_hbm: bool

    def __init__(self, value: str) -> None:
        self.word = value
        self.is_hbm = value.endswith("hbm")
        self.on_chip = not self.is_hbm

    def __repr__(self) -> str:
        return f"nl.{self.value}"

    __hash__ = object.__hash__  # members are single; Enum's is a Python function, several times as slow


MOST_DIMENSIONS = 30
"""Dimensions of a tensor or of an access; NumPy, which adds one for bytes, has 32."""
LARGE = 1 << 24  # bytes from which on a tensor in HBM is too large to wait in a cache for its readers
MOST_ELEMENTS = 1 << 40
"""Elements of an access, those that it repeats included, and of a step: more bytes than any memory has."""

TileAddress = tuple[int, int]
"""First partition of a tile on chip, and its byte offset in the partition."""


@dataclass(init=False, eq=False, slots=True, repr=False)
class Tensor:
    """One allocation. Tensors compare by identity; names are unique within a kernel.

    ``address`` is set when the user placed it. ``role`` says how the kernel's caller sees it: ``"input"``, ``"output"``
    or ``""`` (internal). ``"constant"`` is the role of a tensor that holds ``data`` from the beginning and is never
    written; ``"spill"`` of one in HBM in which a tile waits (:mod:`nki.passes.allocation.spilling`).
    ``layout`` is one of a back end; the compiler itself has dense tensors only.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    buffer: Buffer
    address: TileAddress | None = None
    role: str = ""
    span: Span | None = None
    data: Constant | None = None
    layout: Layout = DENSE
    site: tuple[object, ...] = field(init=False, default=())
    """The calls that made it, as positions in code, innermost first; empty where the program is not recorded."""
    form: TensorForm = field(init=False)
    free_size: int = field(init=False)
    """Elements per partition."""
    elements: int = field(init=False)
    nbytes: int = field(init=False)
    bytes_per_partition: int = field(init=False)

    def __init__(  # written out, since that and a __post_init__ take longer, and kernels make tensors in loops
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: Buffer,
        address: TileAddress | None = None,
        role: str = "",
        span: Span | None = None,
        data: Constant | None = None,
        form: TensorForm | None = None,
        layout: Layout = DENSE,
    ) -> None:
        self.name, self.shape, self.dtype, self.buffer = name, shape, dtype, buffer
        self.address, self.role, self.span, self.data, self.site = address, role, span, data, ()
        self.layout = layout
        self.form = form = form or tensor_form(shape, dtype, buffer, layout)
        self.free_size, self.elements, self.nbytes, self.bytes_per_partition = form.sizes


class TensorForm:
    """Facts about all tensors of one shape, element type, memory and layout, which kernels make by the thousand."""

    __slots__ = ("inside", "sizes", "strides", "whole")

    def __init__(self, shape: tuple[int, ...], dtype: DType, buffer: Buffer) -> None:
        free, size = shape[1] if len(shape) == 2 else math.prod(shape[1:]), dtype.itemsize
        elements = shape[0] * free if shape else 1
        self.sizes = free, elements, elements * size, free * size
        """Elements per partition, elements, bytes, bytes per partition."""
        self.strides = row_major(shape)
        ranks = range(1 + buffer.on_chip, MOST_DIMENSIONS + 1)
        self.inside = buffer is not Buffer.register and len(shape) in ranks and 1 <= elements <= MOST_ELEMENTS
        """An access to a whole tensor stays inside it, and is one that executors take."""
        self.whole: AccessForm | None = None
        """The form of accesses to a whole tensor, once one was asked for it."""


_TENSOR_FORMS: dict[tuple[Any, ...], TensorForm] = {}
_MOST_FORMS = 1 << 14


def tensor_form(shape: tuple[int, ...], dtype: DType, buffer: Buffer, layout: Layout = DENSE) -> TensorForm:
    """The form of tensors of this shape, element type, memory and layout."""
    key = (shape, dtype.name, buffer) if layout is DENSE else (shape, dtype.name, buffer, layout.name)
    form = _TENSOR_FORMS.get(key)
    if form is None:
        form = TensorForm(shape, dtype, buffer)
        if all(type(n) is int for n in shape):  # no tensor shares a size that only equals an integer, as True does
            if len(_TENSOR_FORMS) >= _MOST_FORMS:
                _TENSOR_FORMS.clear()
            _TENSOR_FORMS[key] = form
    return form


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, shape and element type of an HBM tensor that a caller passes or receives."""

    name: str
    shape: tuple[int, ...]
    dtype: DType


@lru_cache(maxsize=1 << 12)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Steps, in elements, of a dense row-major array of ``shape``."""
    steps: list[int] = []
    step = 1
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def coalesced(pattern: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """A ``(step, count)`` pattern without dimensions of one element, neighbours joined where one step continues the
    other.
    """
    dims: list[tuple[int, int]] = []
    for step, count in pattern:
        if count == 1:
            continue
        if dims and dims[-1][0] == step * count:
            dims[-1] = (step, dims[-1][1] * count)
        else:
            dims.append((step, count))
    return tuple(dims) or ((1, 1),)


class IndexKind(Enum):
    """The part of an access that a run-time index moves."""

    whole = "at"
    """One index moves the window as a whole."""
    rows = "rows"
    """An index for each element of dimension 0; its own step then means nothing."""
    elements = "elements"
    """An index for each element of dimension 1, the same for all partitions of a group, which has a list of its own
    (:mod:`nki.ir.indirection.gather_offsets`). The step of dimension 1 is 0 and means nothing."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dynamic:
    """The part of an address that is known only when the kernel runs: ``step`` elements for each unit of the index.

    ``source`` is where the index is found: one element of a register or tile, a column with an element per row, or a
    tile with the lists of all groups of partitions. An index counts as unsigned, as hardware reads it; one that leads
    outside the tensor is out of bounds.
    """

    source: Access
    step: int
    kind: IndexKind = IndexKind.whole

    @property
    def signature(self) -> tuple[Any, ...]:
        return (self.kind.value, self.step, self.source.signature)


class AccessForm:
    """Facts about all accesses of one signature; compared by identity, a key without the cost of a hash."""

    __slots__ = ("shape", "signature", "strides")

    def __init__(self, signature: tuple[Any, ...]) -> None:
        self.signature = signature
        self.shape: tuple[int, ...] = signature[1]
        self.strides: tuple[int, ...] = signature[2]


_ACCESS_FORMS: dict[tuple[Any, ...], AccessForm] = {}
"""Forms of accesses, by signature; unrolled kernels have thousands of accesses of one form."""


def _new_access_form(signature: tuple[Any, ...]) -> AccessForm:
    """A form that later accesses share, unless some of its numbers only equal integers, as ``True`` does."""
    form = AccessForm(signature)
    if all(type(n) is int for n in (*form.shape, *form.strides)):
        if len(_ACCESS_FORMS) >= _MOST_FORMS:
            _ACCESS_FORMS.clear()
        _ACCESS_FORMS[signature] = form
    return form


class Access:
    """A strided window of a tensor, counted in elements of ``dtype`` from the tensor's start.

    On chip, dimension 0 runs over partitions. A step of 0 repeats an element (broadcast). ``dynamic`` is an index that
    is added at run time.
    ``inside``: the access is certain to stay inside its tensor, which is no register, and has no run-time index.
    """

    __slots__ = ("_form", "dtype", "dynamic", "inside", "offset", "shape", "strides", "tensor")

    def __init__(
        self,
        tensor: Tensor,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: DType,
        dynamic: Dynamic | None = None,
        inside: bool = False,
    ) -> None:
        self.tensor = tensor
        self.offset = offset
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.dynamic = dynamic
        self.inside = inside
        self._form: AccessForm | None = None

    @classmethod
    def whole(cls, tensor: Tensor) -> Access:
        """All of ``tensor``."""
        form = tensor.form
        access = cls(tensor, 0, tensor.shape, form.strides, tensor.dtype, inside=form.inside)
        access._form = form.whole or access.form_of_whole()
        return access

    def with_window(
        self,
        offset: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dynamic: Dynamic | None = None,
    ) -> Access:
        """Another window of the same tensor, in elements of the same dtype."""
        return self.__class__(self.tensor, offset, shape, strides, self.dtype, dynamic)

    def in_tensor(self, tensor: Tensor) -> Access:
        """The same window, which has no run-time index, of another tensor of the same shape."""
        fresh = Access(tensor, self.offset, self.shape, self.strides, self.dtype)
        if tensor.form is self.tensor.form:
            fresh._form = self.form
        return fresh

    def is_whole(self) -> bool:
        """True of an access to all of a tensor in row-major order; False of some others that touch every byte, too."""
        tensor = self.tensor
        is_dense = self.shape == tensor.shape and self.strides == tensor.form.strides
        return is_dense and not self.offset and self.dtype is tensor.dtype and self.dynamic is None

    @property
    def buffer(self) -> Buffer:
        return self.tensor.buffer

    @property
    def name(self) -> str:
        return self.tensor.name

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def partitions(self) -> int:
        """Partitions touched (the size of dimension 0)."""
        return self.shape[0]

    @property
    def free_elements(self) -> int:
        """Elements per partition."""
        return math.prod(self.shape[1:])

    @property
    def partition_step(self) -> int:
        """Elements of ``dtype`` from one partition of the tensor to the next."""
        tensor = self.tensor
        if tensor.dtype is self.dtype:
            return tensor.free_size
        return tensor.bytes_per_partition // self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, repeated ones counted each time."""
        return self.size * self.dtype.itemsize

    @property
    def start_partition(self) -> int:
        return self.offset // max(1, self.partition_step)

    @property
    def signature(self) -> tuple[Any, ...]:
        """All that rules and code depend on: everything but which tensor it is and where in it the window starts.

        The start partition stays in for tiles on chip, because several rules restrict it; in HBM, if a tensor is large.
        """
        return self.form.signature

    @property
    def form(self) -> AccessForm:
        """The object that accesses of equal signature share, as good as all of them."""
        form = self._form
        if form is None:
            tensor, dtype = self.tensor, self.dtype
            buffer = tensor.buffer
            # As partition_step has it: this runs for most operands of the instructions that a kernel records.
            step = tensor.free_size if tensor.dtype is dtype else tensor.bytes_per_partition // dtype.itemsize
            start = self.offset // step if buffer.on_chip and step else int(tensor.nbytes >= LARGE)
            signature = (dtype.name, self.shape, self.strides, buffer.word, start, step)
            if tensor.layout is not DENSE:
                signature = (*signature, tensor.layout.name, tensor.shape[0])
            if self.dynamic is not None:
                signature = (*signature, self.dynamic.signature)
            form = self._form = _ACCESS_FORMS.get(signature) or _new_access_form(signature)
            self.shape, self.strides = form.shape, form.strides  # one tuple for all
        return form

    def form_of_whole(self) -> AccessForm:
        """The form of this access to a whole tensor, which is noted for others."""
        form = self.tensor.form.whole = self.form
        return form

    def one_place(self) -> bool:
        """True if all elements of a partition are one element of the tensor; a write leaves the last of them."""
        still = len(self.shape) > 1 and not any(self.strides[1:]) and self.free_elements > 1
        return still and not is_element_indexed(self)

    def partitions_apart(self) -> bool:
        """True if no two elements of dimension 0 are one element of the tensor."""
        return self.strides[0] != 0 or self.shape[0] == 1

    def pattern(self) -> Iterator[tuple[int, int]]:
        """``(step, count)`` per dimension."""
        return zip(self.strides, self.shape, strict=True)

    def same_place(self, other: Access) -> bool:
        """True if both windows certainly touch the same elements in the same order."""
        return (
            self.tensor is other.tensor
            and self.offset == other.offset
            and self.shape == other.shape
            and self.strides == other.strides
            and self.dtype is other.dtype
            and self.dynamic is None is other.dynamic
        )

    def equals(self, other: Access) -> bool:
        """True if both are the same window of tensors of the same name."""
        return self._place() == other._place()

    def _place(self) -> tuple[Any, ...]:
        dynamic = self.dynamic
        index = None if dynamic is None else (dynamic.kind, dynamic.step, dynamic.source._place())
        return (self.tensor.name, self.offset, self.shape, self.strides, self.dtype.name, index)


def is_row_indexed(access: Access) -> bool:
    """True if each row of the access has a run-time index of its own."""
    return access.dynamic is not None and access.dynamic.kind is IndexKind.rows


def is_element_indexed(access: Access) -> bool:
    """True if run-time offsets choose the elements of each partition (tensor indirection)."""
    return access.dynamic is not None and access.dynamic.kind is IndexKind.elements


class Form:
    """Facts about all instructions of one signature; compared by identity, a key without the cost of a hash."""

    __slots__ = (
        "accesses",
        "fields",
        "has_runtime_index",
        "immediates",
        "reads",
        "signature",
        "uses",
        "with_accumulation",
    )

    def __init__(self, signature: tuple[Any, ...], has_runtime_index: bool) -> None:
        self.signature = signature
        self.has_runtime_index = has_runtime_index
        """An operand has a run-time index."""
        self.fields: tuple[Any, ...] | None = None
        """The field of each operand that is there; like the next ones, which list operands, made when asked for."""
        self.accesses: Callable[[Any], list[Access]] | None = None
        self.reads: Callable[[Any], list[Access]] | None = None
        self.uses: Callable[[Any], Sequence[tuple[Access, bool, bool]]] | None = None
        self.immediates: Callable[[Any], list[float | int]] | None = None
        self.with_accumulation: dict[bool, Form] = {}
        """The forms of the same instructions that add to PSUM, and that do not, where they are known."""


FORMS: dict[tuple[Any, ...], Form] = {}
"""The forms by signature. A signature may get a second form: that two forms differ tells nothing."""
FORMS_BY_PARTS: dict[tuple[Any, ...], Form] = {}
"""The same forms by what signatures are made of, with forms of accesses in place of their signatures."""


def new_form(parts: tuple[Any, ...], signature: tuple[Any, ...], has_runtime_index: bool) -> Form:
    """The form of a signature, made of ``parts``, that :data:`FORMS_BY_PARTS` does not hold."""
    for table in (FORMS, FORMS_BY_PARTS):
        if len(table) >= _MOST_FORMS:
            table.clear()
    form = FORMS.get(signature)
    if form is None:
        form = FORMS.setdefault(signature, Form(signature, has_runtime_index))
    FORMS_BY_PARTS[parts] = form
    return form


class TensorHandle(Protocol):
    """Interface of the tensors that kernels hold, in whatever language: each has an access, which instructions take."""

    @property
    def access(self) -> Access:
        """The access that the tensor stands for."""
        ...


def access_of(value: Any) -> Any:
    """The access of a tensor that a kernel holds; anything else as it is."""
    return getattr(value, "access", value)


class Role(Enum):
    """Direction of an operand: read, written, or ordered."""

    IN = "in"
    OUT = "out"
    INOUT = "inout"
    ORDER = "order"
    """Neither read nor written: what touched it before stays before the instruction, what comes after stays after."""


class Immediate:
    """Marks a field with a value that reaches the compiled routine at run time instead of being compiled into it."""


T = TypeVar("T")
Tile = Access
In = Annotated[T, Role.IN]
Out = Annotated[T, Role.OUT]
InOut = Annotated[T, Role.INOUT]
Ordered = Annotated[T, Role.ORDER]
Scalar = Annotated[float, Immediate]
Index = Annotated[int, Immediate]
