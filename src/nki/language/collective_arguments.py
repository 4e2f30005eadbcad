"""Arguments of collectives: groups of ranks and lists of tensors; and how a collective is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, cast

from nki.base.errors import ArgumentError
from nki.base.source import here
from nki.frontend.builder import current
from nki.frontend.objects import NKIObject
from nki.ir.instruction import Inst
from nki.ir.instruction_handle import NkiInstruction
from nki.ir.types import Access, Buffer
from nki.isa.build import core_barrier
from nki.isa.rules.collectives import Groups
from nki.language.nki_tensor import NkiTensor


class rg_partition_op(Enum):  # the reference's name
    """The number that decides the group of a rank: ``rank & n``, ``rank // n`` or ``rank % n``."""

    bitwise_and = "bitwise_and"
    div = "div"
    mod = "mod"


class ReplicaGroup(NKIObject):
    """Groups of ranks that exchange with each other, disjoint lists: ``ReplicaGroup([[0, 1], [2, 3]])``.

    Raises :class:`ArgumentError` for anything else.
    """

    replica_groups: Sequence[Sequence[int]]

    def __post_init__(self) -> None:
        groups = listed(self.replica_groups, "replica_groups", "ReplicaGroup")
        ranks = [rank for group in groups for rank in listed(group, "a group", "ReplicaGroup")]
        whole = all(type(rank) is int and rank >= 0 for rank in ranks)
        if not whole or len(set(ranks)) < len(ranks) or not all(map(len, groups)) or not groups:
            raise ArgumentError(
                f"ReplicaGroup: {self.replica_groups!r} is not lists of ranks (0, 1, …), each rank in one of them",
                fix="write `ReplicaGroup([[0, 1], [2, 3]])`",
            )
        self.replica_groups = tuple(tuple(group) for group in groups)

    @classmethod
    def from_partition_op(cls, world_size: int, op: rg_partition_op, operand: int) -> ReplicaGroup:
        """The groups of the ranks ``0`` to ``world_size - 1`` for which ``op(rank, operand)`` is equal, in rank order.

        ``(8, rg_partition_op.div, 4)`` gives [0, 1, 2, 3] and [4, 5, 6, 7]; ``mod`` gives [0, 4], [1, 5], [2, 6],
        [3, 7]; ``bitwise_and`` with 0 one group. Raises :class:`ArgumentError` for other arguments.
        """
        chosen: Any = op
        whole = all(type(number) is int and number >= 0 for number in (world_size, operand))
        divides = chosen is not rg_partition_op.bitwise_and
        if not (whole and world_size and isinstance(chosen, rg_partition_op)) or (divides and not operand):
            raise ArgumentError(
                f"ReplicaGroup.from_partition_op({world_size!r}, {op!r}, {operand!r}): it takes a number of ranks, a "
                "member of rg_partition_op, and a number from 0, from 1 to divide by",
                fix="write `ReplicaGroup.from_partition_op(8, ncc.rg_partition_op.div, 4)`",
            )
        compute = {"bitwise_and": int.__and__, "div": int.__floordiv__, "mod": int.__mod__}[op.value]
        groups: dict[int, list[int]] = {}
        for rank in range(world_size):
            groups.setdefault(compute(rank, operand), []).append(rank)
        return cls(tuple(groups.values()))

    @property
    def _value(self) -> list[list[int]]:
        """The groups as lists: public code reads them by this name."""
        return [list(group) for group in self.replica_groups]


def record(what: str, inst: Inst) -> NkiInstruction:
    """Record a collective. On several cores it starts when all have come, and all may read what it wrote."""
    recorder, where = current(what), here(2)
    cores = tuple(range(recorder.grid[0])) if recorder.grid else (0,)
    shared = len(cores) > 1 and inst.effects.collective is not None
    for access in _shared(inst.accesses()) if shared else ():
        recorder.emit(core_barrier(access, cores, None), where)
    recorder.emit(inst, where)
    for access in _shared(inst.writes()) if shared else ():
        recorder.emit(core_barrier(access, cores, None), where)
    return inst


def _shared(accesses: Iterable[Access]) -> list[Access]:
    """An access of each tensor that the cores share."""
    return list({access.tensor: access for access in accesses if access.buffer is Buffer.shared_hbm}.values())


def groups_of(group: Any, what: str) -> Groups:
    """The groups of a :class:`ReplicaGroup`."""
    current(what)
    if not isinstance(group, ReplicaGroup):
        raise ArgumentError(f"{what}: replica_group={group!r} is no ReplicaGroup", fix="pass `ReplicaGroup([[0, 1]])`")
    return cast("Groups", group.replica_groups)


def accesses_of(value: Any, name: str, what: str) -> tuple[Access, ...]:
    """The accesses of a list of tensors."""
    current(what)
    tensors = listed(value, name, what)
    if not tensors or not all(isinstance(tensor, NkiTensor) for tensor in tensors):
        raise ArgumentError(f"{what}: {name} is no list of tensors", fix="pass a list, of one tensor if there is one")
    return tuple([tensor.access for tensor in tensors])


def listed(value: Any, name: str, what: str) -> list[Any]:
    """The items of a list."""
    if not isinstance(value, list | tuple):
        raise ArgumentError(f"{what}: {name}={value!r:.60} is no list", fix="pass a list, of one item if there is one")
    return list(cast("Iterable[Any]", value))
