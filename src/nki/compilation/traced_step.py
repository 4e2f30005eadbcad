"""A step as a framework runs it: launches of kernels and the framework's own operations, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nki.compilation.executable import Executable


class TensorType(NamedTuple):
    """Shape, dtype (the framework's name, without the package) and size in bytes of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape)) or 'scalar'}:{self.dtype}"


@dataclass(frozen=True, slots=True)
class Launch:
    """A call of a kernel. ``reads`` and ``writes`` are numbers of blocks of memory: tensors that share one depend on
    each other. ``count`` launches follow each other, one for each element of a batch.
    """

    executable: Executable
    reads: frozenset[int]
    writes: frozenset[int]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the framework that moves or computes data; views are none. ``is_collective``: between devices."""

    name: str
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    reads: frozenset[int]
    writes: frozenset[int]
    is_collective: bool = False
    count: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of operands and results; of a collective the bytes of its results, of one without any its operands."""
        operands, results = (sum(each.nbytes for each in types) for types in (self.operands, self.results))
        return (results or operands) if self.is_collective else operands + results


@dataclass(frozen=True, slots=True)
class Note:
    """A fact that the events do not show, such as a loop with a number of iterations that only a run knows."""

    text: str


Event = Launch | Operation | Note


def needs(events: Sequence[Launch | Operation]) -> list[list[int]]:
    """For each event, by their numbers, the earlier ones that must be complete: they have written what it reads or
    writes, or read what it writes.
    """
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    result: list[list[int]] = []
    for number, event in enumerate(events):
        before = {writer[block] for block in event.reads | event.writes if block in writer}
        for block in event.writes:
            before.update(readers.pop(block, ()))
        for block in event.reads - event.writes:
            readers.setdefault(block, []).append(number)
        writer.update(dict.fromkeys(event.writes, number))
        result.append(sorted(before))
    return result
