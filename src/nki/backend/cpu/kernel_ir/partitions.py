"""Partition parallelism: decides if an instruction may run as ranges of partitions, in any order or at one time.

It may if every range reads and writes its own partitions only, apart from memory that nobody writes and from scratch
memory with one row, which every range computes for itself (ranges that run at one time have scratch memory each).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from nki.backend.cpu.kernel_ir.accesses import reads_of
from nki.backend.cpu.kernel_ir.nodes import (
    GRANULE,
    REGISTER,
    SCRATCH,
    Aliases,
    Assign,
    Call,
    Expr,
    LoopStatement,
    Matmul,
    MemRef,
    Plain,
    Print,
    Reduce,
    flat,
    loads,
)
from nki.numerics.matmul import host
from nki.numerics.matmul.contract import BLOCK


def parallel_partitions(loops: Sequence[LoopStatement], aliases: Aliases) -> int:
    """The number of partitions that ``loops`` may be split over; 0 if they must run whole."""
    statements = flat(loops)
    if not all(same for _, _, same in aliases):
        return 0
    targets: list[MemRef] = []
    whole = whole_in_ranges(statements)
    for number, statement in enumerate(statements):
        if isinstance(statement, Print) or (isinstance(statement, Reduce) and statement.cross_partition):
            return 0
        if number not in whole:
            targets.append(statement.target)
    partitions = max((target.rows for target in targets), default=0)
    if partitions <= GRANULE or any(t.rows != partitions and (t.rows > 1 or t.base >= 0) for t in targets):
        return 0
    uses = list(_uses_of_all(statements, partitions, _owners(aliases)))
    if any(use.writes and use.by_partition and not (_separate(use, use) or use.distinct) for use in uses):
        return 0
    for one, two in combinations(uses, 2):
        if (one.writes or two.writes) and one.overlaps(two) and not _separate(one, two):
            return 0
    return partitions


def whole_in_ranges(statements: Sequence[LoopStatement]) -> frozenset[int]:
    """The numbers of the statements that every range runs for all partitions.

    These copy an operand of a product to scratch memory, where it lies as the product can read it: each partition of
    the result needs all partitions of the operand, or a column of them.
    """
    whole: set[int] = set()
    wanted: list[MemRef] = []
    for number in range(len(statements) - 1, -1, -1):
        statement = statements[number]
        if isinstance(statement, Matmul):
            wanted += [factor for factor in (statement.left, statement.right) if factor.base == SCRATCH]
        elif isinstance(statement, Assign) and any(_share(statement.target, factor) for factor in wanted):
            whole.add(number)
            wanted += [memref for memref, _ in reads_of(statement) if memref.base == SCRATCH]
    return frozenset(whole)


def _share(target: MemRef, factor: MemRef) -> bool:
    """True if ``target`` is the scratch memory of ``factor``; what is allocated is never a part of another piece."""
    return target.base == SCRATCH and target.offset == factor.offset


def parallel_columns(statements: Sequence[LoopStatement], aliases: Aliases, turns: bool, is_load: bool) -> int:
    """The number of columns of the result that ``statements`` may be split over, instead of partitions; 0 if none.

    That is so for a product of few rows, for a transposition if ``turns``, of which a range of columns reads a range of
    partitions, and for a copy into blocks if ``is_load``.
    """
    if len(statements) != 1 or aliases:
        return 0
    (statement,) = statements
    if isinstance(statement, Matmul) and statement.has_few_rows:
        columns = statement.target.columns
    elif isinstance(statement, Assign):
        source = (turns and _turned(statement)) or (is_load and _into_blocks(statement))
        columns = source.columns if source else 0
    else:
        return 0
    target = statement.target
    return columns if columns > GRANULE and _columns_apart(target) else 0


def _turned(statement: Assign) -> MemRef | None:
    """The source of a transposition, whose partitions are columns of the target."""
    source, target = statement.value.memref, statement.target
    if statement.value.kind != "load" or source is None or not (target.dense_rows or target.in_blocks):
        return None
    return source if source.row_step == 1 and len(source.dims) == 1 and source.rows == target.rows else None


def _into_blocks(statement: Assign) -> MemRef | None:
    """The source of a copy of dense rows into blocks."""
    source, target = statement.value.memref, statement.target
    if statement.value.kind != "load" or source is None or not target.in_blocks:
        return None
    if host.columns_of_block() != BLOCK:  # else the copy has other blocks
        return None
    is_whole = (source.rows, source.columns) == (target.rows, target.columns)
    return source if is_whole and source.dense_rows and _columns_apart(source) else None


def _columns_apart(memref: MemRef) -> bool:
    """True if the bytes of a column of dense rows lie between those of no other one in another row, or of blocks."""
    return memref.in_blocks or (memref.dense_rows and (memref.rows == 1 or abs(memref.row_step) >= memref.columns))


def uses_of_columns(statements: Sequence[LoopStatement], columns: int) -> tuple[Use, ...]:
    """The operands' bytes that the statement uses, which may be split over columns; a column counts as a partition."""
    (statement,) = statements
    assert isinstance(statement, Matmul | Assign)
    uses = [_column_use(statement.target, True)]
    if isinstance(statement, Matmul):
        uses += [replace(use, partitions=columns) for use in _uses(statement, 0, {}) if not use.writes]
    elif source := _turned(statement):
        size = source.dtype.itemsize
        high = source.offset + source.rows * size
        uses.append(Use(source.base, False, source.offset, high, source.dims[0][0] * size, columns))
    else:
        source = _into_blocks(statement)
        assert source is not None
        uses.append(_column_use(source, False))
    return tuple(dict.fromkeys(use for use in uses if use.memory != SCRATCH))


def _column_use(memref: MemRef, writes: bool) -> Use:
    """The bytes of the columns of dense rows, or of blocks: of these, no range has only a part."""
    if memref.in_blocks:
        step = memref.dims[0][0] * memref.dtype.itemsize // BLOCK
        return Use(memref.base, writes, memref.offset, memref.offset + step, step, memref.columns, True)
    size, low = memref.dtype.itemsize, memref.offset
    pitch = memref.row_step * size if memref.rows > 1 else 0
    return Use(memref.base, writes, low, low + size, size, memref.columns, True, pitch, memref.rows)


def uses_of(loops: Sequence[LoopStatement], partitions: int) -> tuple[Use, ...]:
    """The operands' bytes that ``loops``, which may be split over ``partitions``, read and write; each once."""
    every = _uses_of_all(flat(loops), partitions, {})
    return tuple(dict.fromkeys(use for use in every if use.memory != SCRATCH))


def _uses_of_all(statements: Sequence[Plain], partitions: int, owners: dict[int, int]) -> Iterator[Use]:
    """The memory that a range of ``partitions`` uses."""
    whole = whole_in_ranges(statements)
    for number, statement in enumerate(statements):
        uses = _uses(statement, 0 if number in whole else partitions, owners)
        yield from (use for use in uses if use.memory != REGISTER)


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
    pitch: int = 0
    """Bytes between pieces of a partition: ``pieces`` of them, each from ``low`` to ``high``. They are at least as far
    apart as all partitions reach.
    """
    pieces: int = 1

    @property
    def by_partition(self) -> bool:
        return self.step != 0

    def overlaps(self, other: Use) -> bool:
        """True if the two may share bytes, taking all partitions together."""
        (low, high), (other_low, other_high) = self.span(), other.span()
        return self.memory == other.memory and low < other_high and other_low < high

    def span(self) -> tuple[int, int]:
        """The first byte of all partitions, and the one behind the last."""
        reaches = (self.partitions - 1) * self.step, (self.pieces - 1) * self.pitch
        return self.low + sum(min(0, reach) for reach in reaches), self.high + sum(max(0, reach) for reach in reaches)


def _separate(one: Use, two: Use) -> bool:
    """True if no partition of one use shares bytes with another partition of the other one."""
    if not one.by_partition and not two.by_partition:
        return one.memory == SCRATCH  # computed by every range for itself
    same = one.step == two.step and one.pitch == two.pitch
    return same and max(one.high, two.high) - min(one.low, two.low) <= abs(one.step)


def _uses(statement: Plain, partitions: int, owners: dict[int, int]) -> Iterator[Use]:
    """The memory that ``statement`` reads and writes."""
    assert not isinstance(statement, Print)
    gathered = {id(load.memref): load.value for load in _loads(statement) if load.kind == "gather"}
    writes, work = (statement.targets, statement.work) if isinstance(statement, Call) else ((statement.target,), ())
    reads = [memref for memref, _ in reads_of(statement)]
    for number, memref in enumerate((*writes, *work, *reads)):
        dims = (gathered[id(memref)],) if id(memref) in gathered else memref.dims
        size = memref.dtype.itemsize
        ends = [(count - 1) * step * size for step, count in dims]
        low = memref.offset + sum(end for end in ends if end < 0)
        high = memref.offset + sum(end for end in ends if end > 0) + size
        step = memref.row_step * size
        is_write = number < len(writes) + len(work)
        if _has_columns(statement, memref, partitions) and memref.is_turned:
            column = memref.dims[0][0] * size
            yield Use(memref.base, False, memref.offset, memref.offset + memref.rows * size, column, partitions)
        elif _has_columns(statement, memref, partitions):
            use = _column_use(memref, False)
            yield replace(use, memory=owners.get(memref.base, memref.base))
        elif memref.rows == partitions and memref not in work and not _is_factor(statement, memref):
            distinct = is_distinct([(step, partitions), *((step * size, count) for step, count in dims)], size)
            yield Use(owners.get(memref.base, memref.base), is_write, low, high, step, partitions, distinct)
        else:
            reach = (memref.rows - 1) * step
            low, high = low + min(0, reach), high + max(0, reach)
            yield Use(owners.get(memref.base, memref.base), is_write, low, high, 0, partitions)


def _is_factor(statement: Plain, memref: MemRef) -> bool:
    """True of the operands of a product, which sums over their partitions, column by column of the left one."""
    return isinstance(statement, Matmul) and (memref is statement.left or memref is statement.right)


def _has_columns(statement: Plain, memref: MemRef, partitions: int) -> bool:
    """True of the left operand of a product: a partition of the result reads one column.

    What the routine itself computes in scratch memory, every range computes as a whole.
    """
    return (
        isinstance(statement, Matmul)
        and memref is statement.left
        and memref.base != SCRATCH
        and memref.columns == partitions
        and (memref.is_turned or _columns_apart(memref))
    )


def is_distinct(dims: Iterable[tuple[int, int]], size: int) -> bool:
    """True if elements of ``size`` bytes in a pattern of these steps, in bytes, and counts certainly share no byte."""
    reach = size
    for step, count in sorted((abs(step), count) for step, count in dims if count > 1):
        if step < reach:
            return False
        reach += step * (count - 1)
    return True


def _loads(statement: Plain) -> Iterator[Expr]:
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
