"""Partition parallelism: decides if an instruction may run as ranges of partitions, in any order or at one time.

It may if every range reads and writes its own partitions only, apart from memory that nobody writes and from scratch
memory with one row, which every range computes for itself (ranges that run at one time have scratch memory each).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from nki.backend.cpu.loop_ir.lower import reads_of
from nki.backend.cpu.loop_ir.nodes import (
    GRANULE,
    SCRATCH,
    Aliases,
    Assign,
    Expr,
    Gemm,
    LoopStatement,
    MemRef,
    Print,
    Reduce,
    RowOp,
    loads,
)


def parallel_partitions(statements: list[LoopStatement], aliases: Aliases) -> int:
    """The number of partitions that ``statements`` may be split over; 0 if they must run whole."""
    if not all(same for _, _, same in aliases):
        return 0
    targets: list[MemRef] = []
    for statement in statements:
        if isinstance(statement, Print) or (isinstance(statement, Reduce) and statement.cross_partition):
            return 0
        targets.append(statement.target)
    partitions = max((target.rows for target in targets), default=0)
    if partitions <= GRANULE or any(t.rows != partitions and (t.rows > 1 or t.base != SCRATCH) for t in targets):
        return 0
    owners = _owners(aliases)
    uses = [use for statement in statements for use in _uses(statement, partitions, owners)]
    if any(use.writes and use.by_partition and not (_separate(use, use) or use.distinct) for use in uses):
        return 0
    for one, two in combinations(uses, 2):
        if (one.writes or two.writes) and one.overlaps(two) and not _separate(one, two):
            return 0
    return partitions


def uses_of(statements: list[LoopStatement], partitions: int) -> tuple[Use, ...]:
    """The operands' bytes that ``statements``, which may be split over ``partitions``, read and write; each once."""
    every = (use for statement in statements for use in _uses(statement, partitions, {}))
    return tuple(dict.fromkeys(use for use in every if use.memory != SCRATCH))


@dataclass(frozen=True, slots=True)
class Use:
    """Bytes of one memory that a statement reads or writes: from ``low`` to ``high`` in each partition.

    ``memory`` is the number of an operand, ``low`` and ``high`` count from its first element. ``step`` leads from
    partition to partition; 0: every range uses the same bytes.
    """

    memory: int
    writes: bool
    low: int
    high: int
    step: int
    partitions: int
    distinct: bool = False
    """True if no two elements of all partitions share a byte, even where partitions are interleaved."""

    @property
    def by_partition(self) -> bool:
        return self.step != 0

    def overlaps(self, other: Use) -> bool:
        """True if the two may share bytes, taking all partitions together."""
        (low, high), (other_low, other_high) = self.span(), other.span()
        return self.memory == other.memory and low < other_high and other_low < high

    def span(self) -> tuple[int, int]:
        """The first byte of all partitions, and the one behind the last."""
        reach = (self.partitions - 1) * self.step
        return self.low + min(0, reach), self.high + max(0, reach)


def _separate(one: Use, two: Use) -> bool:
    """True if no partition of one use shares bytes with another partition of the other one."""
    if not one.by_partition and not two.by_partition:
        return one.memory == SCRATCH  # computed by every range for itself
    return one.step == two.step and max(one.high, two.high) - min(one.low, two.low) <= abs(one.step)


def _uses(statement: LoopStatement, partitions: int, owners: dict[int, int]) -> Iterator[Use]:
    """The memory that ``statement`` reads and writes."""
    assert not isinstance(statement, Print)
    gathered = {id(load.memref): load.value for load in _loads(statement) if load.kind == "gather"}
    work = statement.outputs if isinstance(statement, RowOp) and statement.op == "ranked" else ()
    writes = [statement.target, *(() if work or not isinstance(statement, RowOp) else statement.outputs)]
    whole = isinstance(statement, Gemm)  # which sums over the partitions that it reads
    reads = [memref for memref, _ in reads_of(statement)]
    for number, memref in enumerate((*writes, *work, *reads)):
        dims = (gathered[id(memref)],) if id(memref) in gathered else memref.dims
        size = memref.dtype.itemsize
        ends = [(count - 1) * step * size for step, count in dims]
        low = memref.offset + sum(end for end in ends if end < 0)
        high = memref.offset + sum(end for end in ends if end > 0) + size
        step = memref.row_step * size
        is_write = number < len(writes) + len(work)
        if memref.rows == partitions and memref not in work and not (whole and not is_write):
            distinct = _is_distinct([(step, partitions), *((step * size, count) for step, count in dims)], size)
            yield Use(owners.get(memref.base, memref.base), is_write, low, high, step, partitions, distinct)
        else:
            reach = (memref.rows - 1) * step
            low, high = low + min(0, reach), high + max(0, reach)
            yield Use(owners.get(memref.base, memref.base), is_write, low, high, 0, partitions)


def _is_distinct(dims: Iterable[tuple[int, int]], size: int) -> bool:
    """True if elements of ``size`` bytes in a pattern of these steps, in bytes, and counts certainly share no byte."""
    reach = size
    for step, count in sorted((abs(step), count) for step, count in dims if count > 1):
        if step < reach:
            return False
        reach += step * (count - 1)
    return True


def _loads(statement: LoopStatement) -> Iterator[Expr]:
    """The loads and gathers in the expressions of ``statement``."""
    match statement:
        case Assign():
            yield from loads(statement.value)
        case Reduce():
            for part in (statement.value, statement.init):
                yield from () if part is None else loads(part)
        case _:
            return


def _owners(aliases: Aliases) -> dict[int, int]:
    """One operand for all those that are the same window, by operand."""
    owners: dict[int, int] = {}
    for written, read, _ in aliases:
        one, two = owners.get(written, written), owners.get(read, read)
        for operand in {written, read, *(o for o, owner in owners.items() if owner == two)}:
            owners[operand] = one
    return owners
