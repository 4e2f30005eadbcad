"""``NkiTensor``: what a kernel holds in its hands, a view of storage that indexing narrows without copying."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable
from typing import Any, NoReturn, cast

from nki.base.errors import IndexRangeError, TensorOperatorError, ViewError
from nki.ir.types import Access, Tensor, row_major

Index = int | slice | Any


class ds:
    """``nl.ds(start, size)``: the slice ``start : start + size``."""

    __slots__ = ("size", "start")

    def __init__(self, start: int, size: int) -> None:
        self.start = start
        self.size = size

    def __repr__(self) -> str:
        return f"nl.ds({self.start}, {self.size})"


class NkiTensor(Access):
    """A tensor of a kernel: ``shape``, ``dtype``, ``buffer``, ``name``, ``strides`` and ``offset`` (in elements).

    On chip, dimension 0 is the partition: indexing it with an integer keeps it with size 1, and a view keeps at least
    two dimensions. In HBM an integer index removes its dimension. Indices are checked: nothing is clipped.
    """

    __slots__ = ()

    @classmethod
    def of(cls, tensor: Tensor) -> NkiTensor:
        """All of ``tensor``."""
        return cls(tensor, 0, tensor.shape, row_major(tensor.shape), tensor.dtype)

    def __repr__(self) -> str:
        text = f"NkiTensor {self.name} {self.dtype}{list(self.shape)} in {self.buffer.value}"
        shown = values(self)
        return f"{text}\n{shown}" if shown else text

    def __getitem__(self, key: Index | tuple[Index, ...]) -> NkiTensor:
        keys = cast(tuple[Index, ...], key) if isinstance(key, tuple) else (key,)
        given, shape, strides = len(keys), self.shape, self.strides
        at = next((i for i, item in enumerate(keys) if item is Ellipsis), None)
        if at is not None:
            keys = keys[:at] + (slice(None),) * (len(shape) - given + 1) + keys[at + 1 :]
            given = len(keys)
        if given > len(shape):
            raise IndexRangeError(
                f"'{self.name}' of shape {shape} has {len(shape)} dimensions; {given} indices were given",
                fix="give at most one index per dimension",
            )
        offset = self.offset
        sizes: list[int] = []
        steps: list[int] = []
        on_chip = self.tensor.buffer.on_chip
        for dim, item in enumerate(keys):
            size = shape[dim]
            if type(item) is slice and item.step is None:
                start, stop = item.start, item.stop
                if start is None and stop is None:
                    sizes.append(size)
                    steps.append(strides[dim])
                    continue
                if type(start) is int and type(stop) is int and 0 <= start < stop <= size:
                    count, step = stop - start, 1
                else:
                    start, count, step = self._slice(dim, item)
            elif type(item) is int:
                start, count, step = self._select(dim, item), 0, 1
            else:
                start, count, step = self._other(dim, item)
            offset += start * strides[dim]
            if count:
                sizes.append(count)
                steps.append(strides[dim] * step)
            elif dim == 0 and on_chip:
                sizes.append(1)
                steps.append(strides[0])
        sizes.extend(shape[given:])
        steps.extend(strides[given:])
        if len(sizes) < 1 + on_chip:
            sizes.append(1)
            steps.append(1)
        return NkiTensor(self.tensor, offset, tuple(sizes), tuple(steps), self.dtype)

    def _other(self, dim: int, item: Any) -> tuple[int, int, int]:
        """The slow cases of an index: start, number of elements (0 for a plain index), step."""
        if isinstance(item, slice):
            return self._slice(dim, item)
        if isinstance(item, ds):
            return self._window(dim, item)
        try:
            index = None if isinstance(item, bool) else operator.index(item)
        except TypeError:
            index = None
        if index is None:
            shown = f"tensor '{item.name}'" if isinstance(item, NkiTensor) else f"{item!r:.40} ({type(item).__name__})"
            raise IndexRangeError(
                f"index {shown} into dimension {dim} of '{self.name}' {self.shape}",
                fix="index with integers, slices, nl.ds(start, size) and …; not with arrays, None or tensors",
            )
        return self._select(dim, index), 0, 1

    def _window(self, dim: int, item: ds) -> tuple[int, int, int]:
        size = self.shape[dim]
        try:
            start, count = operator.index(item.start), operator.index(item.size)
        except TypeError:
            raise IndexRangeError(
                f"{item!r} of dimension {dim} of '{self.name}' {self.shape} has a bound that is no integer",
                fix="slice with integers known at compile time",
            ) from None
        first = start + size if start < 0 else start
        if count < 1 or not 0 <= first <= size - count:
            raise IndexRangeError(
                f"{item!r} of dimension {dim} of '{self.name}' {self.shape} is empty or leaves the dimension, which "
                f"has size {size}",
                fix=f"keep start + size <= {size}, and size at least 1",
            )
        return first, count, 1

    def _select(self, dim: int, index: int) -> int:
        size = self.shape[dim]
        if not -size <= index < size:
            raise IndexRangeError(
                f"index {index} is outside dimension {dim} of '{self.name}' {self.shape}, which has size {size}",
                fix=f"use an index from 0 to {size - 1}",
            )
        return index + size if index < 0 else index

    def _slice(self, dim: int, item: slice) -> tuple[int, int, int]:
        size = self.shape[dim]
        try:
            step = 1 if item.step is None else operator.index(item.step)
            start = 0 if item.start is None else operator.index(item.start)
            stop = size if item.stop is None else operator.index(item.stop)
        except TypeError:
            raise IndexRangeError(
                f"slice {_shown(item)} of dimension {dim} of '{self.name}' {self.shape} has a bound that is no integer",
                fix="slice with integers known at compile time",
            ) from None
        start, stop = (start + size if start < 0 else start), (stop + size if stop < 0 else stop)
        if step < 1 or not (0 <= start < stop <= size):
            raise IndexRangeError(
                f"slice {_shown(item)} of dimension {dim} of '{self.name}' {self.shape} "
                + (f"has step {step}" if step < 1 else f"is empty or leaves the dimension, which has size {size}"),
                fix=f"keep 0 <= start < stop <= {size}, for example with min(stop, {size}), and a positive step",
            )
        return start, -(-(stop - start) // step), step

    def __setitem__(self, key: Index, value: object) -> NoReturn:
        raise TensorOperatorError(
            f"assignment into '{self.name}'", fix="write with an instruction: nisa.tensor_copy(dst=t[…], src=…)"
        )

    def reshape(self, *shape: Any) -> NkiTensor:
        """The same elements in another shape, without copying. On chip dimension 0 must stay.

        Raises :class:`ViewError` for another number of elements or a layout that would need a copy.
        """
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        try:
            wanted = tuple(operator.index(n) for n in cast(tuple[Any, ...], given))
        except TypeError:
            raise ViewError(f"reshape of '{self.name}' to {given!r}", fix="pass integers: the new sizes") from None
        if any(n < 1 for n in wanted):
            raise ViewError(f"reshape of '{self.name}' to {wanted}: a size is below 1", fix="write every size out")
        total = math.prod(wanted)
        if total != self.size:
            raise ViewError(
                f"'{self.name}' of shape {self.shape} has {self.size} elements; shape {wanted} has {total}",
                fix="choose sizes whose product stays the same",
            )
        if self.buffer.on_chip and (len(wanted) < 2 or wanted[0] != self.shape[0]):
            raise ViewError(
                f"reshape of '{self.name}' from {self.shape} to {wanted} would change its partitions",
                fix=f"keep dimension 0 at {self.shape[0]} and at least two dimensions",
            )
        first = 1 if self.buffer.on_chip else 0
        strides = _restride(self.shape[first:], self.strides[first:], wanted[first:])
        if strides is None:
            raise ViewError(
                f"'{self.name}' of shape {self.shape} and strides {self.strides} cannot become {wanted} without a copy",
                fix="reshape the whole tensor before slicing it, or copy the slice to a tile of its own",
            )
        return NkiTensor(self.tensor, self.offset, wanted, (*self.strides[:first], *strides), self.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        """Identity: kernels ask ``tensor == None``. Elements are compared with ``op=nl.equal``."""
        if other is not None and not isinstance(other, NkiTensor):
            self._refuse("==")
        return self is other

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise TensorOperatorError(
            f"'{self.name}' used as a condition: its values exist only when the kernel runs",
            fix="test its shape, or `tensor is not None`; select elements with nisa.tensor_copy_predicated",
        )

    def __iter__(self) -> NoReturn:
        raise TensorOperatorError(
            f"iteration over tensor '{self.name}' {self.shape}", fix=f"write for i in range({self.shape[0]}): … t[i]"
        )

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TensorOperatorError(
            f"'{self.name}' used as a NumPy array inside a kernel",
            fix="use the nisa instructions; NumPy works only on values known at compile time",
        )

    def _refuse(self, sign: str) -> NoReturn:
        raise TensorOperatorError(
            f"Python's {sign} on tensor '{self.name}' {self.shape}",
            fix="use an instruction: nisa.tensor_tensor(dst, a, b, op=nl.add) for two tiles, nisa.tensor_scalar for a "
            "tile and a number",
        )


def _refusing(sign: str) -> Any:
    def method(self: NkiTensor, *_: object) -> NoReturn:
        self._refuse(sign)  # pyright: ignore[reportPrivateUsage]  # a method of the class, made outside its body

    return method


for _name, _sign in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}.items():  # fmt: skip
    for _prefix in ("", "r", "i"):
        setattr(NkiTensor, f"__{_prefix}{_name}__", _refusing(_sign))
for _name, _sign in {"neg": "-", "pos": "+", "abs": "abs", "invert": "~"}.items():
    setattr(NkiTensor, f"__{_name}__", _refusing(_sign))
for _name, _sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}.items():
    setattr(NkiTensor, f"__{_name}__", _refusing(_sign))


def _shown(item: slice) -> str:
    parts = [item.start, item.stop] + ([item.step] if item.step is not None else [])
    return ":".join("" if p is None else str(p) for p in parts)


def _restride(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides of a view of ``shape``/``strides`` seen as ``wanted``; None when there are none."""
    runs: list[list[int]] = []  # [elements, step] of each dense run, outermost first
    for size, step in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * step:
            runs[-1] = [runs[-1][0] * size, step]
        else:
            runs.append([size, step])
    result: list[int] = []
    for size in reversed(wanted):
        if size == 1:
            result.append(1)
            continue
        while runs and runs[-1][0] == 1:
            runs.pop()
        if not runs or runs[-1][0] % size:
            return None
        result.append(runs[-1][1])
        runs[-1] = [runs[-1][0] // size, runs[-1][1] * size]
    return tuple(reversed(result))


class _Viewers(threading.local):
    def __init__(self) -> None:
        self.stack: list[Callable[[Access], str]] = []


_viewers = _Viewers()


def values(tensor: Access) -> str:
    """The contents of ``tensor`` as text while this thread's eager simulator runs, else nothing."""
    return _viewers.stack[-1](tensor) if _viewers.stack else ""


class showing:
    """Context manager: ``viewer`` shows the values of tensors that this thread prints."""

    def __init__(self, viewer: Callable[[Access], str]) -> None:
        self.viewer = viewer

    def __enter__(self) -> None:
        _viewers.stack.append(self.viewer)

    def __exit__(self, *exc: object) -> None:
        _viewers.stack.pop()


__all__ = ["NkiTensor", "ds", "showing", "values"]
