"""Exchanges among ranks in a collective, with values of the NumPy executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from nki.base.errors import ArgumentError, SeveralRanksError
from nki.ir.effects import Collective
from nki.ir.instruction import Inst
from nki.rendezvous import ranks

Array = NDArray[Any]


class _Value(Protocol):
    array: Array


V = TypeVar("V", bound=_Value)

_SMALL = 1 << 14
"""Bytes of a value up to which it takes longer to meet once more than to combine all of it on each rank."""
_RUN = 1 << 17
"""Elements that are combined at a time: so many of several values fit into a cache."""


def takes_part(collective: Collective) -> bool:
    """False for a rank that no group names, where that is allowed: its destinations stay as they are."""
    if not collective.inactive:
        return True
    participant = ranks.current()
    return bool(collective.group_of(0 if participant is None else participant.rank))


class RankExchange(Generic[V]):
    """The exchanges of one instruction on the rank that runs here; ``make(array, like)`` makes a value."""

    def __init__(self, inst: Inst, make: Callable[[Array, V], V]) -> None:
        collective = inst.as_collective()
        assert collective is not None, f"{inst.mnemonic} is no collective"
        self._inst, self._make = inst, make
        self._participant = ranks.current()
        self.rank = 0 if self._participant is None else self._participant.rank
        self._group: tuple[int, ...] = ()
        if groups := collective.groups or collective.places:
            self._group = collective.group_of(self.rank)
            self._check(max(map(max, groups)), collective)
        among = f"group {list(self._group)}"
        self._agreed = (inst.mnemonic, among, *collective.agreed, *(f"{a.shape} {a.dtype}" for a in inst.accesses()))

    def _check(self, last: int, collective: Collective) -> None:
        """Raise unless all ranks that the groups name run, and this one is in one of them."""
        where, groups = self._inst.where, collective.subject
        if self._participant is None and last > 0:
            raise SeveralRanksError(
                f"{self._inst.mnemonic}: the groups {groups} name {last + 1} ranks, and this launch runs one",
                fix=f"call the kernel inside `with nki.ranks({last + 1}):`, with a list of one array per rank for each "
                "tensor; or start one process per rank with torchrun",
            ).at(where.span, where.stack)
        count = 1 if self._participant is None else self._participant.rendezvous.count
        if last >= count or not self._group:
            wrong = f"name rank {last}" if last >= count else f"leave out rank {self.rank}, which runs the collective"
            raise ArgumentError(
                f"{self._inst.mnemonic}: the groups {groups} {wrong}; {count} ranks run",
                fix=f"pass groups of the ranks 0 to {count - 1}, each in one of them",
            ).at(where.span, where.stack)

    def _meet(self, parts: Sequence[Array], *, apart: bool) -> list[Array]:
        """The part of each rank of the group for this one, if each has its own (``apart``), else its one part."""
        if self._participant is None or len(self._group) == 1:
            return [parts[0]]
        return self._participant.gather(self._inst, self._group, self._agreed, list(parts), apart=apart)

    def gather(self, value: V) -> list[V]:
        """The values of the group."""
        return [self._make(array, value) for array in self._meet([self._kept(value)], apart=False)]

    def _kept(self, value: V) -> Array:
        """The elements of ``value``; a copy where other ranks may read them when this one has gone on."""
        return value.array if self._participant is None else value.array.copy()

    def parts(self, value: V, count: int) -> list[V]:
        """The part for this rank of each value of the group: of ``count`` runs of its elements, as even as possible."""
        split = np.array_split(self._kept(value), count, axis=1)
        return [self._make(array, value) for array in self._meet(split, apart=True)]

    def fold(self, value: V, combine: Callable[[V, V], V]) -> list[V]:
        """The values of the group, each one row, combined in its order: the runs of the result, one behind the other.

        Of large values each rank combines a part for all.
        """
        if value.array.nbytes <= _SMALL or len(self._group) == 1:
            return [self._folded(self.gather(value), combine)]
        # No copies: when the ranks meet again, each has read the parts of the others.
        parts = self._meet(np.array_split(value.array, len(self._group), axis=1), apart=True)
        total = self._folded([self._make(part, value) for part in parts], combine)
        return [self._make(array, total) for array in self._meet([total.array], apart=False)]

    def _folded(self, values: Sequence[V], combine: Callable[[V, V], V]) -> V:
        """``values`` of one row, combined run by run."""
        width = values[0].array.shape[1]
        if width <= _RUN or len(values) == 1:
            return _combined(values, combine)
        result: V | None = None
        for start in range(0, width, _RUN):
            run = slice(start, start + _RUN)
            total = _combined([self._make(value.array[:, run], value) for value in values], combine)
            if result is None:
                result = self._make(np.empty((1, width), total.array.dtype), total)
            result.array[:, run] = total.array
        assert result is not None
        return result

    def permute(self, value: V, otherwise: V, pairs: Sequence[tuple[int, int]]) -> V:
        """The value of this rank's source, if it has one."""
        sources, targets = {target: source for source, target in pairs}, dict(pairs)
        empty = value.array[:, :0]
        whole = self._kept(value) if self.rank in targets else empty
        parts = [whole if targets.get(self.rank) == other else empty for other in self._group]
        received = self._meet(parts, apart=True)
        return self._make(received[self._group.index(sources[self.rank])], value) if self.rank in sources else otherwise


def _combined(values: Sequence[V], combine: Callable[[V, V], V]) -> V:
    total, *others = values
    for other in others:
        total = combine(total, other)
    return total
