"""The memory that statements read and write, the operands that share some, and which ranges need no other range's.

A routine may run as ranges of partitions of its result, in any order or at one time, if no range uses what another one
writes. Scratch memory with one row every range computes for itself; ranges that run at one time have scratch memory
each. A few statements are split by columns of the result instead (:func:`column_split`). In both cases a range of the
result uses a range of rows, or of columns, of each operand, or all of it (:func:`_cut`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from nki.backend.cpu.kernel_ir.nodes import (
    GRANULE,
    PANEL_BASE,
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
from nki.ir.instruction import Inst
from nki.ir.types import Role
from nki.ir.windows import may_overlap, pattern_repeats
from nki.numerics.matmul import host
from nki.numerics.matmul.contract import BLOCK

_WRITTEN: Final = frozenset({"target", "targets", "work"})
"""The fields of statements that hold the memory that they write."""


def targets_of(statement: Plain) -> tuple[MemRef, ...]:
    """The memory that a statement writes, without what it works in."""
    if isinstance(statement, Print):
        return ()
    return statement.targets if isinstance(statement, Call) else (statement.target,)


def reads_of(statement: Plain) -> list[tuple[MemRef, bool]]:
    """The memory that a statement reads; True: element by element, in the order in which it writes."""
    values = [getattr(statement, each.name) for each in fields(statement) if each.name not in _WRITTEN]
    several: list[Sequence[Any]] = [value if isinstance(value, tuple) else (value,) for value in values]
    reads = [(each, False) for value in several for each in value if isinstance(each, MemRef)]
    for load in [load for value in values if isinstance(value, Expr) for load in loads(value)]:
        memref, is_load = load.memref, load.kind == "load"
        if memref is None or (isinstance(statement, Matmul) and memref.base == PANEL_BASE):
            continue
        whole = memref if is_load else replace(memref, dims=(load.value,))  # any element that a gather may choose
        reads.append((whole, is_load and isinstance(statement, Assign)))
    return reads


def touches(statement: LoopStatement, memref: MemRef) -> bool:
    """True if ``statement`` may read or write scratch memory of ``memref``."""
    used = [each for part in flat([statement]) for each in (*targets_of(part), *(read for read, _ in reads_of(part)))]
    return any(memref.overlaps(each) for each in used)


def aliases(inst: Inst) -> Aliases:
    """The pairs of operands, one of them written, that may share memory."""
    operands = inst.operands()  # by field: one access may stand in several of them, here written and there read
    pairs: list[tuple[int, int, bool]] = []
    for w, (f, target) in enumerate(operands):
        if f.role not in (Role.OUT, Role.INOUT):
            continue
        for r, (_, source) in enumerate(operands):
            if r != w and source.tensor is target.tensor:
                same = target.same_place(source)
                if same or may_overlap(target, source):
                    pairs.append((w, r, same))
    return tuple(pairs)


def repeats(memref: MemRef) -> bool:
    """True if two elements of ``memref`` may share a byte."""
    dims = (memref.row_step, memref.rows), *memref.dims
    return pattern_repeats(tuple(count for _, count in dims), tuple(step for step, _ in dims))


Window = tuple[int, int, int, int, int, int, bool]
"""Bytes of one memory that ranges use: ``step, pitch, low, high, first, end, writes``.

The first partition uses those from ``low`` to ``high``, the next one those a ``step`` further; 0: every range uses the
same. ``pitch``: bytes between pieces of a partition, each from ``low`` to ``high``, which are at least as far apart as
all partitions reach; 0: there is one. ``first`` and ``end``: the first byte of all partitions, and the one behind them.
"""
Use = tuple[int, Window]
"""An operand and a window, which counts from its first element."""
NEW: Final = -1
"""Stands for the number of a window that there is not yet."""
_MOST_WINDOWS: Final = 64
"""Windows of one memory; with more, the search would take longer than the split is worth."""
_OWN: Final = 1 << 62
"""The step of memory that every range has for itself."""


def taking(windows: Sequence[Window], window: Window) -> int | None:
    """The number of the window that can take in this one, :data:`NEW` if none can, None if partitions cross.

    They cross if one uses bytes that another one writes. They do not if both windows step alike, and all that they use
    of one partition lies within a step.
    """
    if len(windows) >= _MOST_WINDOWS:
        return None
    number = NEW
    step, pitch, low, high, first, end, writes = window
    for n, other in enumerate(windows):
        its_step, its_pitch, its_low, its_high, its_first, its_end, its_writes = other
        if (
            its_step == step
            and step
            and its_pitch == pitch
            and (its_high if its_high > high else high) - (its_low if its_low < low else low) <= abs(step)
        ):
            number = n
        elif (its_writes or writes) and first < its_end and its_first < end:
            return None
        elif other == window:
            number = n
    return number


def take_in(windows: list[Window], number: int, window: Window) -> None:
    """Let window ``number``, as :func:`taking` gave it, take in this one."""
    if number == NEW:
        windows.append(window)
        return
    step, pitch, low, high, first, end, writes = window
    _, _, its_low, its_high, its_first, its_end, its_writes = windows[number]
    low, high, first, end = min(low, its_low), max(high, its_high), min(first, its_first), max(end, its_end)
    windows[number] = step, pitch, low, high, first, end, writes or its_writes


@dataclass(frozen=True, slots=True)
class Split:
    """The ranges that a routine may run as: of ``count`` partitions or columns of its result; 0: it must run whole."""

    count: int = 0
    by_columns: bool = False
    whole: frozenset[int] = frozenset()
    """The numbers of the statements that every range runs for all partitions."""
    uses: tuple[Use, ...] = ()
    """The bytes of operands that ranges use, each once."""


def partition_split(loops: Sequence[LoopStatement], aliases: Aliases) -> Split:
    """The partitions that ``loops`` may be split over."""
    whole = _whole_in_ranges(loops)
    statements = [(part, number in whole) for number, loop in enumerate(loops) for part in flat([loop])]
    targets: list[MemRef] = []
    for statement, is_whole in statements:
        if isinstance(statement, Print) or (isinstance(statement, Reduce) and statement.cross_partition):
            return Split()
        if not is_whole:
            targets.append(statement.target)
    count = max((target.rows for target in targets), default=0)
    if not all(same for _, _, same in aliases) or count <= GRANULE:
        return Split()
    if any(t.rows != count and (t.rows > 1 or t.base >= 0) for t in targets):
        return Split()
    owners = _owners(aliases)
    known: dict[int, list[Window]] = {}
    uses: list[Use] = []
    for statement, is_whole in statements:
        for memref, window in _uses(statement, "rows", 0 if is_whole else count):
            step, _, low, high, _, _, writes = window
            if writes and 0 < abs(step) < high - low and repeats(memref):
                return Split()
            windows = known.setdefault(owners.get(memref.base, memref.base), [])
            taker = taking(windows, window)
            if taker is None:
                return Split()
            take_in(windows, taker, window)
            uses.append((memref.base, window))
    return Split(count, False, whole, _of_operands(uses))


def _whole_in_ranges(statements: Sequence[LoopStatement]) -> frozenset[int]:
    """The numbers of the statements that every range runs for all partitions.

    These copy an operand of a matmul to scratch memory, where it lies as the matmul can read it: each partition of
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


def _owners(aliases: Aliases) -> dict[int, int]:
    """One operand for all those that are the same window, by operand."""
    owners: dict[int, int] = {}
    for written, read, _ in aliases:
        one, two = owners.get(written, written), owners.get(read, read)
        for operand in {written, read, *(o for o, owner in owners.items() if owner == two)}:
            owners[operand] = one
    return owners


def column_split(statements: Sequence[LoopStatement], aliases: Aliases, transposes: bool, is_load: bool) -> Split:
    """The columns of the result that ``statements`` may be split over, instead of partitions.

    That is so for a matmul of few rows, for a transposition if ``transposes``, of which a range of columns reads a
    range of partitions, and for a copy into blocks if ``is_load``.
    """
    if len(statements) != 1 or aliases:
        return Split()
    (statement,) = statements
    match statement:
        case Matmul():
            may_split = statement.has_few_rows
        case Assign(target, Expr(kind="load", memref=MemRef() as source)):
            may_split = (transposes and _is_transposition(source, target)) or (
                is_load and _is_copy_into_blocks(source, target)
            )
        case _:
            return Split()
    count = statement.target.columns
    if not may_split or count <= GRANULE or not _columns_apart(statement.target):
        return Split()
    uses = [(memref.base, window) for memref, window in _uses(statement, "columns", count)]
    return Split(count, True, frozenset(), _of_operands(uses))


def _is_transposition(source: MemRef, target: MemRef) -> bool:
    """True if partitions of the source are columns of the target."""
    is_turned = source.row_step == 1 and len(source.dims) == 1 and source.rows == target.rows
    return is_turned and (target.dense_rows or target.in_blocks)


def _is_copy_into_blocks(source: MemRef, target: MemRef) -> bool:
    """True of a copy of dense rows into blocks, if those that matmuls read are the blocks of copies."""
    is_whole = (source.rows, source.columns) == (target.rows, target.columns)
    is_dense = source.dense_rows and _columns_apart(source)
    return target.in_blocks and is_whole and is_dense and host.columns_of_block() == BLOCK


def _columns_apart(memref: MemRef) -> bool:
    """True if the bytes of a column of dense rows, or of blocks, do not lie between the bytes of another column."""
    return memref.in_blocks or (memref.dense_rows and (memref.rows == 1 or abs(memref.row_step) >= memref.columns))


def _of_operands(uses: Iterable[Use]) -> tuple[Use, ...]:
    return tuple(dict.fromkeys(use for use in uses if use[0] != SCRATCH))


_Cut = Literal["rows", "columns", "nothing"]
"""The dimension of an operand that a range of the result cuts to a range."""


def _uses(statement: Plain, by: _Cut, count: int) -> Iterator[tuple[MemRef, Window]]:
    """The memory that ``statement`` reads and writes if ``count`` rows, or columns, of its result are split."""
    work = statement.work if isinstance(statement, Call) else ()
    written = (*targets_of(statement), *work)
    for number, memref in enumerate((*written, *(memref for memref, _ in reads_of(statement)))):
        if memref.base == REGISTER:
            continue
        cut = "nothing" if memref in work else _cut(statement, memref, by, count)
        yield memref, _window(memref, cut, number < len(written))


def _cut(statement: Plain, memref: MemRef, by: _Cut, count: int) -> _Cut:
    """The dimension of an operand that is split with ``count`` rows, or columns, of the result.

    A matmul sums over the partitions of its operands; a partition of the result reads a column of the left one. What
    the routine itself computes in scratch memory, every range computes as a whole.
    """
    if isinstance(statement, Matmul) and (memref is statement.left or memref is statement.right):
        is_column = by == "rows" and memref is statement.left and memref.base != SCRATCH and memref.columns == count
        return "columns" if is_column and (memref.is_turned or _columns_apart(memref)) else "nothing"
    if isinstance(statement, Matmul) and by == "columns" and memref is not statement.target:
        return "nothing"  # what its epilogue reads
    return by if by == "columns" or memref.rows == count else "nothing"


def _window(memref: MemRef, cut: _Cut, writes: bool) -> Window:
    """The bytes of ranges of one dimension of ``memref``."""
    size, pitch, (first, end) = memref.dtype.itemsize, 0, memref.span
    if cut == "nothing":
        step, low, high = _OWN if memref.base == SCRATCH else 0, first, end
    elif cut == "rows":
        step, (low, high) = memref.row_step * size, replace(memref, rows=1).span
    elif memref.in_blocks:  # no range has only a part of a block
        step, low = memref.dims[0][0] * size // BLOCK, memref.offset
        high, end = low + step, low + memref.columns * step
    elif memref.row_step == 1 and len(memref.dims) == 1:
        step, (low, high) = memref.dims[0][0] * size, replace(memref, dims=()).span
    else:
        step, low, high = size, memref.offset, memref.offset + size
        pitch = memref.row_step * size if memref.rows > 1 else 0
    return step, pitch, low, high, first, end, writes
