"""Chains of view operations, drawn at random, legal and illegal ones, and what NumPy makes of them.

Each operation is done three ways: by the tensor, by NumPy, and by the documented rules, which say whether it may be
done. The rules are written here again, from the documentation, over NumPy's own strides and addresses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nki.backend.numpy.memory import Memory
from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.frontend.builder import Builder
from nki.ir.loop import VirtualRegister
from nki.ir.recorder import recording
from nki.ir.types import Access, Buffer, IndexKind
from nki.language.nki_tensor import NkiTensor
from nki.target import GEN3

Array = np.ndarray[Any, Any]
KINDS = (dt.uint8, dt.int16, dt.float16, dt.int32, dt.float32)


@dataclass
class State:
    """A view and the array that it should equal; ``flat`` is all of the storage, ``index`` the values of registers."""

    view: NkiTensor
    array: Array
    flat: Array
    builder: Builder
    memory: Memory
    index: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def on_chip(self) -> bool:
        return self.view.buffer.on_chip

    @property
    def start(self) -> int:
        """The byte of the storage at which NumPy's view starts."""
        address = self.array.__array_interface__["data"][0]
        return address - self.flat.__array_interface__["data"][0]

    @property
    def partition(self) -> int:
        """Bytes of a partition of the storage."""
        return self.view.access.tensor.nbytes // self.view.access.tensor.shape[0]

    def register(self, value: int) -> VirtualRegister:
        register = VirtualRegister(self.builder.tensor("index", (1, 1), dt.int32, Buffer.register))
        self.index[register.name] = value
        return register

    def read(self) -> Array:
        """The elements of the view, with the run-time indices in place."""
        return read(self.view.access, self.memory, self.index)


def read(view: Access, memory: Memory, index: dict[str, Any]) -> Array:
    """The elements that a view names, row by row where its rows are chosen at run time."""
    dynamic = view.dynamic
    if dynamic is None:
        return memory.window(view)
    value = index[dynamic.source.name]
    if dynamic.kind is IndexKind.whole:
        moved = view.offset + dynamic.step * value
        return memory.window(Access(view.tensor, moved, view.shape, view.strides, view.dtype))
    rows = [
        memory.window(
            Access(view.tensor, view.offset + dynamic.step * at, view.shape[1:], view.strides[1:], view.dtype)
        )
        for at in value
    ]
    return np.stack(rows)


def begin(shape: tuple[int, ...], dtype: DType, buffer: Buffer) -> State:
    """A tensor of random bytes."""
    builder = Builder("test", GEN3)
    with recording(builder):
        tensor = builder.tensor("t", shape, dtype, buffer)
    flat = np.random.default_rng(7).integers(0, 256, tensor.nbytes, np.uint8)
    array = flat.view(dtype.dtype).reshape(shape)
    memory = Memory()
    memory.bind(tensor, array)
    return State(NkiTensor.of(tensor), array, flat, builder, memory)


@st.composite
def storages(draw: st.DrawFn) -> State:
    on_chip = draw(st.booleans())
    shape = tuple(draw(st.lists(st.integers(1, 8), min_size=1 + on_chip, max_size=4)))
    return begin(shape, draw(st.sampled_from(KINDS)), Buffer.sbuf if on_chip else Buffer.hbm)


NAMES = (
    "slice", "select", "dynamic", "permute", "broadcast", "expand_dim", "squeeze_dim", "reshape_dim", "flatten_dims",
    "reshape", "rearrange", "view", "ap",
)  # fmt: skip


@st.composite
def steps(draw: st.DrawFn, state: State) -> tuple[str, tuple[Any, ...]]:
    """An operation on the state's view and its arguments, mostly legal ones."""
    return step(draw, state, draw(st.sampled_from(NAMES)))


def step(draw: st.DrawFn, state: State, name: str) -> tuple[str, tuple[Any, ...]]:
    shape = state.array.shape
    rank = len(shape)
    dim = draw(st.integers(-rank - 1, rank) if draw(st.integers(0, 9)) == 0 else st.integers(-rank, rank - 1))
    size = shape[dim] if -rank <= dim < rank else 1
    if name == "slice":
        start = draw(st.integers(-1, size))
        return name, (dim, start, draw(st.integers(start, size + 1)), draw(st.integers(0, 3)))
    if name in ("select", "dynamic"):
        return name, (dim, draw(st.integers(0, size - 1) if name == "dynamic" else st.integers(-1, size)))
    if name == "permute":
        order = list(draw(st.permutations(range(rank))))
        if state.on_chip and draw(st.booleans()):
            order.remove(0)
            order.insert(0, 0)
        return name, (tuple(n - rank if draw(st.booleans()) else n for n in order),)
    if name == "broadcast":
        return name, (draw(one_of_size_one(shape, dim)), draw(st.integers(0, 4)))
    if name == "expand_dim":
        return name, (draw(st.integers(-rank - 2, rank + 1)),)
    if name == "squeeze_dim":
        return name, (draw(one_of_size_one(shape, dim)),)
    if name == "reshape_dim":
        sizes = list(draw(factors(size)))
        if draw(st.booleans()):
            sizes[draw(st.integers(0, len(sizes) - 1))] = -1
        return name, (dim, tuple(sizes))
    if name == "flatten_dims":
        return name, (dim, draw(st.integers(-rank, rank - 1)))
    if name == "reshape":
        first = (shape[0],) if draw(st.booleans()) else ()
        return name, ((*first, *draw(factors(math.prod(shape[len(first) :]), 3))),)
    if name == "rearrange":
        return name, draw(patterns(shape, state.on_chip))
    if name == "view":
        return name, (draw(st.sampled_from(KINDS)),)
    return name, draw(access_patterns(state))


def one_of_size_one(shape: tuple[int, ...], dim: int) -> st.SearchStrategy[int]:
    """A dimension of size 1 if there is one."""
    return st.sampled_from([i for i, size in enumerate(shape) if size == 1] or [dim])


@st.composite
def factors(draw: st.DrawFn, size: int, most: int = 3) -> tuple[int, ...]:
    """Sizes with the product ``size``, nearly always."""
    parts = [1] * draw(st.integers(1, most))
    for prime in (2, 3, 5, 7):
        while size % prime == 0:
            parts[draw(st.integers(0, len(parts) - 1))] *= prime
            size //= prime
    parts[0] *= size + (draw(st.integers(0, 19)) == 0)
    return tuple(parts)


@st.composite
def patterns(draw: st.DrawFn, shape: tuple[int, ...], on_chip: bool) -> tuple[Any, ...]:
    """A rearrangement: some dimensions split, all of the parts reordered, some of them merged."""
    letters = iter("abcdefghijklmnop")
    source: list[Any] = []
    fixed: dict[str, int] = {}
    for dim, size in enumerate(shape):
        parts = (size,) if on_chip and dim == 0 else draw(factors(size, 2))
        names = tuple(next(letters) for _ in parts)
        fixed.update(dict(list(zip(names, parts, strict=True))[1:]))
        source.append(names if len(names) > 1 or draw(st.booleans()) else names[0])
    flat = [name for entry in source for name in ((entry,) if isinstance(entry, str) else entry)]
    keep = int(on_chip and draw(st.integers(0, 9)) > 0)
    order = flat[:keep] + list(draw(st.permutations(flat[keep:])))
    wanted: list[Any] = []
    while order:
        count = 1 if not wanted and keep else draw(st.integers(1, 2))
        wanted.append(order[0] if count == 1 else tuple(order[:count]))
        order = order[count:]
    return tuple(source), tuple(wanted), fixed


@st.composite
def access_patterns(draw: st.DrawFn, state: State) -> tuple[Any, ...]:
    """Arguments of ``ap``: pattern, offset, dtype. Many reach just to the end of a partition or of the storage."""
    kind = draw(st.sampled_from(KINDS))
    free, total = state.partition // kind.itemsize, state.flat.size // kind.itemsize
    rows = state.view.access.tensor.shape[0]
    pairs = [[draw(st.integers(0, max(1, free // 2))), draw(st.integers(1, 3))] for _ in range(draw(st.integers(0, 3)))]
    within = sum(s * (n - 1) for s, n in pairs)
    if state.on_chip or draw(st.booleans()):
        step = free if draw(st.integers(0, 5)) else draw(st.integers(0, 2 * free))
        pairs.insert(0, [step, draw(st.integers(1, rows))])
    if draw(st.integers(0, 19)) == 0:
        pairs += [[1, 1], [0, 2], [draw(st.integers(-1, 1)), draw(st.integers(0, 1))]]
    beyond = sum(s * (n - 1) for s, n in pairs)
    ends = [free - 1 - within, free - within, total - 1 - beyond, total - beyond, -1, 0]
    return pairs, draw(st.none() | st.sampled_from(ends) | st.integers(0, total)), kind


def mine(state: State, name: str, arguments: tuple[Any, ...]) -> NkiTensor:
    """The tensor's own."""
    view = state.view
    if name == "dynamic":
        return view.select(arguments[0], state.register(arguments[1]))
    if name == "ap":
        pattern, offset, kind = arguments
        return view.ap(pattern, offset=offset, dtype=kind)
    return getattr(view, name)(*arguments)


def theirs(state: State, name: str, arguments: tuple[Any, ...]) -> Array | None:
    """NumPy's; None where the documented rules forbid the operation."""
    return globals()[f"_{name}"](state, *arguments)


def _dim(dim: int, rank: int) -> int | None:
    return dim % rank if -rank <= dim < rank else None


def _slice(state: State, dim: int, start: int, end: int, step: int) -> Array | None:
    at = _dim(dim, state.array.ndim)
    if at is None or step < 1 or not 0 <= start < end <= state.array.shape[at]:
        return None
    return state.array[(slice(None),) * at + (slice(start, end, step),)]


def _select(state: State, dim: int, index: int) -> Array | None:
    at = _dim(dim, state.array.ndim)
    if at is None or not 0 <= index < state.array.shape[at]:
        return None
    if at == 0 and state.on_chip:
        return state.array[index : index + 1]
    picked = state.array[(slice(None),) * at + (index, ...)]
    return picked if picked.ndim > state.on_chip else picked[..., np.newaxis]


def _dynamic(state: State, dim: int, index: int) -> Array | None:
    at = _dim(dim, state.array.ndim)
    if at is None or (state.on_chip and at == 0) or state.view.is_indirect() or state.view.strides[at] == 0:
        return None
    return _select(state, dim, index)


def _permute(state: State, dims: tuple[int, ...]) -> Array | None:
    moved = state.array.transpose(dims)
    return None if state.on_chip and dims[0] % len(dims) else moved


def _broadcast(state: State, dim: int, size: int) -> Array | None:
    at = _dim(dim, state.array.ndim)
    if at is None or state.array.shape[at] != 1 or size < 1 or (state.on_chip and at == 0):
        return None
    shape = state.array.shape
    return np.broadcast_to(state.array, (*shape[:at], size, *shape[at + 1 :]))


def _expand_dim(state: State, dim: int) -> Array | None:
    at = _dim(dim, state.array.ndim + 1)
    return None if at is None or (state.on_chip and at == 0) else np.expand_dims(state.array, at)


def _squeeze_dim(state: State, dim: int) -> Array | None:
    at = _dim(dim, state.array.ndim)
    if at is None or state.array.shape[at] != 1 or (state.on_chip and at == 0) or state.array.ndim == 1 + state.on_chip:
        return None
    return np.squeeze(state.array, at)


def _without_copy(state: State, shape: tuple[int, ...]) -> Array | None:
    """The array in another shape, unless NumPy must copy for it. On chip partitions are no memory to run over."""
    if state.on_chip and (len(shape) < 2 or shape[0] != state.array.shape[0]):
        return None
    made = state.array[0].reshape(shape[1:]) if state.on_chip else state.array.reshape(shape)
    return state.array.reshape(shape) if np.may_share_memory(made, state.flat) else None


def _reshape_dim(state: State, dim: int, sizes: tuple[int, ...]) -> Array | None:
    at = _dim(dim, state.array.ndim)
    shape = state.array.shape
    if at is None or sizes.count(-1) > 1:
        return None
    known = -math.prod(sizes) if -1 in sizes else math.prod(sizes)
    if shape[at] % known if -1 in sizes else shape[at] != known:
        return None
    inner = tuple(shape[at] // known if n == -1 else n for n in sizes)
    return _without_copy(state, (*shape[:at], *inner, *shape[at + 1 :]))


def _flatten_dims(state: State, start: int, end: int) -> Array | None:
    first, last = _dim(start, state.array.ndim), _dim(end, state.array.ndim)
    if first is None or last is None or first > last or (state.on_chip and first == 0):
        return None
    shape = state.array.shape
    return _without_copy(state, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


def _reshape(state: State, shape: tuple[int, ...]) -> Array | None:
    return None if math.prod(shape) != state.array.size else _without_copy(state, shape)


def _rearrange(state: State, source: tuple[Any, ...], wanted: tuple[Any, ...], fixed: dict[str, int]) -> Array | None:
    """By way of einsum: every part a subscript of its own."""
    sizes = dict(fixed)
    for size, entry in zip(state.array.shape, source, strict=True):
        known = math.prod(sizes.get(name, 1) for name in entry)
        if any(name in sizes for name in entry) and size % known:
            return None
        if all(name in sizes for name in entry) and known != size:
            return None
        sizes.update({name: size // known for name in entry if name not in sizes})
    before, after = "".join(n for e in source for n in e), "".join(n for e in wanted for n in e)
    if state.on_chip and before[0] != "".join(wanted[0]):
        return None
    parts = state.array.reshape([sizes[name] for name in before])
    moved = np.einsum(f"{before}->{after}", parts)
    made = moved.reshape([math.prod(sizes[name] for name in entry) for entry in wanted])
    return made if np.may_share_memory(made, state.flat) else None


def _view(state: State, kind: DType) -> Array | None:
    array, old, new = state.array, state.array.itemsize, kind.itemsize
    if old == new:
        return array.view(kind.dtype)
    uneven = state.start % new or any(
        s % new for s, n in zip(array.strides[:-1], array.shape[:-1], strict=True) if n > 1
    )
    contiguous = array.shape[-1] == 1 or array.strides[-1] == old
    whole = array.shape[-1] * old % new == 0 and not (state.on_chip and state.partition % new)
    if not contiguous or not whole or uneven or state.view.is_indirect():
        return None
    shape, strides = (*array.shape[:-1], array.shape[-1] * old // new), (*array.strides[:-1], new)
    shown = np.ndarray(shape, kind.dtype, state.flat.data, state.start, strides)
    assert shown.tobytes() == np.ascontiguousarray(array).view(kind.dtype).tobytes()
    return shown


def _ap(state: State, pairs: list[list[int]], offset: int | None, kind: DType) -> Array | None:
    """Element by element, from flat storage."""
    size = kind.itemsize
    if state.view.is_indirect() or any(s < 0 or n < 1 for s, n in pairs) or not pairs:
        return None
    if offset is None and state.start % size:
        return None
    start = state.start // size if offset is None else offset
    places = np.full([n for _, n in pairs], start)
    for dim, (s, n) in enumerate(pairs):
        places = places + (s * np.arange(n)).reshape((-1,) + (1,) * (len(pairs) - dim - 1))
    if places.min() < 0 or places.max() >= state.flat.size // size:
        return None
    if state.on_chip:
        free, rest = divmod(state.partition, size)
        if rest or not 2 <= len(pairs) <= 5 or (pairs[0][0] != free and pairs[0][1] > 1):
            return None
        rows = start // free + np.arange(pairs[0][1])
        if not all((row // free == at).all() for row, at in zip(places, rows, strict=True)):
            return None
    strides = [s * size for s, _ in pairs]
    shown = np.ndarray([n for _, n in pairs], kind.dtype, state.flat.data, start * size, strides)
    whole = state.flat[: state.flat.size // size * size].view(kind.dtype)
    assert shown.tobytes() == whole[places].tobytes()
    return shown
