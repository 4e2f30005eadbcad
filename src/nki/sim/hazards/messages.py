"""Messages of hazards: the instructions, source lines and bytes that took part."""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nki.analysis.access_pattern import pattern_of
from nki.analysis.byte_grid import ByteGrid
from nki.base.errors import (
    AccumulationError,
    ClobberedReadError,
    NkiError,
    OutOfBoundsError,
    StaleReadError,
    UnwrittenReadError,
)
from nki.base.source import Span, Where
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.program import CoreProgram
from nki.ir.types import Access, Role, Tensor
from nki.isa.rules.accumulators import SCALAR, VECTOR
from nki.sim.hazards.shadow import READY

_LOOPS: Final = "the loop"
_REDUCTION_OF: Final = {SCALAR: "Scalar", VECTOR: "Vector"}
_RESET: Final = (
    "pass reduce_cmd=nisa.reduce_cmd.reset_reduce to the first instruction of the reduction: it clears the registers "
    "and adds its results; `idle` adds nothing, `reduce` goes on from what the registers hold"
)
_PART: Final = 4096
"""Times that a part of the log holds."""


class ExecutionLog:
    """The instructions that ran, by time; the first one after ``READY``."""

    def __init__(self) -> None:
        self._entries: list[tuple[Where, type[Inst] | None]] = []
        """The place and the kind of each instruction or loop that ran, once."""
        self._numbers: dict[tuple[int, type[Inst] | None], int] = {}
        self._last = array("I")
        self._full: list[array[int]] = []
        """Numbers of entries, by time. Rounds of a loop are alike, and so are these; equal ones are kept once."""
        self._unique: dict[bytes, array[int]] = {}

    def add(self, by: Inst | Loop) -> int:
        """Record that ``by`` runs; its time."""
        where, kind = by.where, type(by) if isinstance(by, Inst) else None
        number = self._numbers.get((id(where), kind))
        if number is None:
            number = self._numbers[id(where), kind] = len(self._entries)
            self._entries.append((where, kind))
        last = self._last
        last.append(number)
        time = READY + _PART * len(self._full) + len(last)
        if len(last) == _PART:
            self._full.append(self._unique.setdefault(last.tobytes(), last))
            self._last = array("I")
        return time

    def _entry(self, time: int) -> tuple[Where, type[Inst] | None]:
        part, number = divmod(time - READY - 1, _PART)
        return self._entries[(self._full[part] if part < len(self._full) else self._last)[number]]

    def where(self, time: int) -> Where:
        """Source location of the instruction that ran at ``time``."""
        return self._entry(time)[0]

    def by_matmul(self, time: int) -> bool:
        """True if a matmul ran at ``time``."""
        kind = self._entry(time)[1] if time > 0 else None
        return kind is not None and kind.effects.accumulation is not None

    def by_tensor_engine(self, time: int) -> bool:
        """True if the Tensor engine ran at ``time``."""
        kind = self._entry(time)[1]
        return kind is not None and kind.on_tensor_engine

    def mnemonic(self, time: int) -> str:
        """Name of the instruction that ran at ``time``."""
        kind = self._entry(time)[1]
        return kind.mnemonic if kind else _LOOPS

    def describe(self, time: int, near: Span | None) -> str:
        """The instruction that ran at ``time`` and its line, for a message at ``near``."""
        return _describe(self.mnemonic(time), self.where(time).span, near)


def _describe(what: str, span: Span | None, near: Span | None) -> str:
    return what + (f" in {line_of(span, near)}" if span else "")


def line_of(span: Span, near: Span | None) -> str:
    """The line of ``span`` for a message at ``near``; with its file if that differs."""
    return f"line {span.line}" if near is not None and span.file == near.file else str(span)


def operand_name(by: Inst | Loop, access: Access) -> str:
    """Mnemonic, and name of the operand that ``access`` is."""
    if not isinstance(by, Inst):
        return "for: a bound" if isinstance(by, For) else "while: the condition"
    operands = sorted(
        by.operands(), key=lambda operand: operand[0].role is Role.OUT
    )  # operands that are read come first
    field = next((f.name for f, a in operands if a is access or a.same_place(access)), "")
    field = field or next((f.name for f, a in operands if a.tensor is access.tensor), "")
    return f"{by.mnemonic}: {field or 'the index of an operand,'}"


def describe_tensor(tensor: Tensor) -> str:
    """A tensor with its shape, type and memory."""
    if tensor.buffer.word == "register":
        return f"register '{tensor.name}'"
    return f"'{tensor.name}' {tensor.shape} {tensor.dtype} in {tensor.buffer.value}"


def first_box(tensor: Tensor, chosen: ByteGrid) -> str:
    """The first box of the chosen bytes: partitions and bytes of a partition; in HBM bytes and the first element."""
    if not tensor.buffer.on_chip:
        flat = chosen.flat()
        assert flat is not None, "no limit"
        start, stop = _run(flat, 0)
        index = [int(n) for n in np.unravel_index(start // tensor.dtype.itemsize, tensor.shape)]
        return _and_others(f"bytes {start} to {stop - 1} from element {index} on", stop - start, chosen)
    if chosen.rows[-1] != tensor.shape[0]:
        chosen = ByteGrid.of_bytes(tensor, chosen.entries())
    row = int(chosen.cells.any(axis=1).argmax())
    start, stop = _run(chosen, row)
    top = int(chosen.rows[row])
    below = int(chosen.rows[row + 1]) - top  # rows of a grid that are alike are one
    where = f"partition {top}" if below == 1 else f"partitions {top} to {top + below - 1}"
    return _and_others(f"{where}, bytes {start} to {stop - 1}", below * (stop - start), chosen)


def _run(chosen: ByteGrid, row: int) -> tuple[int, int]:
    """Start and end of the first run of chosen bytes in a row."""
    line = chosen.cells[row]
    start = int(line.argmax())
    rest = line[start:]
    stop = start + (len(rest) if rest.all() else int(rest.argmin()))
    return int(chosen.columns[start]), int(chosen.columns[stop])


def _and_others(box: str, size: int, chosen: ByteGrid) -> str:
    return box if size == chosen.count() else f"{box} and others"


def _amount(chosen: ByteGrid, total: int, tensor: Tensor) -> str:
    missing = chosen.count()
    return f"{first_box(tensor, chosen)} ({'all' if missing == total else f'{missing} of'} {total} bytes)"


class ReadErrors:
    """Errors of one read: ``by`` reads ``access``, as many bytes as ``asked``."""

    def __init__(self, by: Inst | Loop, access: Access, asked: int, log: ExecutionLog) -> None:
        self._by = by
        self._access = access
        self._asked = asked
        self._log = log
        self._near = by.where.span
        self._subject = f"{operand_name(by, access)} {describe_tensor(access.tensor)}"

    def unwritten(
        self, missing: ByteGrid, last: int, program: CoreProgram | None, *, swapped: bool = False
    ) -> NkiError:
        """The ``missing`` bytes were never written; the tensor was last written at time ``last`` (0: never).

        ``swapped``: the instruction writes a tensor that has contents, as if its operands stood in the wrong order.
        """
        tensor = self._access.tensor
        origin = f", made in {line_of(tensor.span, self._near)}," if tensor.span else ""
        other = f"; {self._log.describe(last, self._near)} wrote other parts of it" if last else ""
        later = None if program is None else later_writer(program, self._by, tensor, missing)
        if later is not None and later.where.span is not None:
            when = f" before ({_describe(later.mnemonic, later.where.span, self._near)} does so only later)"
            fix = f"read it behind {line_of(later.where.span, self._near)}"
        else:
            when = " and nothing will be" if program is not None else " yet"
            fix = self._written_first(swapped=swapped, never=last == 0)
        if tensor.name in _REDUCTION_OF and isinstance(self._by, Inst):
            engine = _REDUCTION_OF[tensor.name]
            text = f"{self._by.mnemonic} reads the reduction registers of the {engine} engine, which were not set{when}"
            return self._error(UnwrittenReadError, text, _RESET)
        if tensor.buffer.word == "register" and later is None:
            fix = "set it first, with nisa.register_move or nisa.register_load"
        if tensor.buffer.word == "register":
            return self._error(UnwrittenReadError, f"{self._subject}{origin} is read and was not set{when}", fix)
        where = _amount(missing, self._asked, tensor)
        text = f"{self._subject}{origin} is read where nothing was written{when}, {where}{other}"
        return self._error(UnwrittenReadError, text, fix)

    def _written_first(self, *, swapped: bool, never: bool) -> str:
        """The way out of reading what nothing has written: another order of operands, a start of the sum, a write."""
        name = self._access.tensor.name
        first = "write it first, with nisa.dma_copy, nisa.memset or what computes it; or read only what was written"
        if not isinstance(self._by, Inst):
            return first
        into = next(iter(self._by.writes()), None)
        if swapped and into is not None:
            field = operand_name(self._by, self._access).rpartition(" ")[2]
            return (
                f"if '{name}' is to receive the result, pass it as dst and '{into.tensor.name}' as {field}: the "
                f"destination comes first; else {first}"
            )
        if never and name.isidentifier() and any(a.tensor is self._access.tensor for a in self._by.writes()):
            start = f"a sum begins with `nisa.memset({name}, 0.0)` in front of its loop"
            return f"set it first: {start}; or {first}"
        return first

    def undefined(self, origin: NkiError) -> NkiError:
        """The value depends on bytes that were never written; ``origin`` is the error of reading those."""
        first = f" in {line_of(origin.span, self._near)}" if origin.span else ""
        text = f"{self._subject} is read, and is undefined since{first}: {origin.message}"
        return self._error(type(origin), text, origin.fix)

    def stale(self, missing: ByteGrid, other: Tensor, time: int) -> NkiError:
        """The ``missing`` bytes of a placed tile were never written; they hold bytes of ``other``, of ``time``."""
        tensor = self._access.tensor
        text = (
            f"{self._subject} at {tensor.address} is read where nothing was written to it, "
            f"{_amount(missing, self._asked, tensor)}: there is what {self._log.describe(time, self._near)} wrote to "
            f"{describe_tensor(other)} at {other.address}"
        )
        return self._error(StaleReadError, text, f"write '{tensor.name}' first, or give the tiles addresses apart")

    def clobbered(
        self, overwritten: ByteGrid, written: int, over: Tensor, time: int, *, itself: bool = False
    ) -> NkiError:
        """The ``overwritten`` bytes of a placed tile were written at ``time`` through the tile ``over``.

        ``itself``: the instruction that reads them writes them, both at its own pace.
        """
        tensor = self._access.tensor
        before = f", written by {self._log.describe(written, self._near)}," if written else ""
        text = (
            f"{self._subject} at {tensor.address}{before} is read "
            + ("while the same instruction writes" if itself else f"after {self._log.describe(time, self._near)} wrote")
            + f" {describe_tensor(over)} at {over.address}, over {_amount(overwritten, self._asked, tensor)}"
        )
        fix = "give the tiles addresses apart"
        fix = fix if itself else f"read '{tensor.name}' before that, or {fix}"
        return self._error(ClobberedReadError, text, fix)

    def without_start(self, missing: ByteGrid) -> NkiError:
        """A matmul adds to bytes where no accumulation group has started."""
        text = f"{self._subject} is added to where nothing was written, "
        text += _amount(missing, self._asked, self._access.tensor)
        fix = "let the first matmul of a sum overwrite: accumulate=(i > 0), or leave accumulate out"
        return self._error(AccumulationError, text, fix)

    def foreign(self, numbers: ByteGrid, time: int, target: str) -> NkiError:
        """A matmul adds to ``numbers`` other than 0 that another engine wrote at ``time``."""
        where = _amount(numbers, self._asked, self._access.tensor)
        text = (
            f"{self._subject} is added to, where {self._log.describe(time, self._near)} has written numbers other than "
            f"0, {where}; on {target} that is undefined, matmuls can add only to what matmuls wrote"
        )
        fix = "begin the sum with a matmul, and add the other numbers with nisa.tensor_tensor afterwards"
        return self._error(AccumulationError, text, fix)

    def _error(self, kind: type[NkiError], text: str, fix: str) -> NkiError:
        return kind(text, fix=fix).at(self._near, self._by.where.stack if isinstance(self._by, Inst) else ())


def out_of_range_error(inst: Inst, numbers: NDArray[np.int64], outside: NDArray[np.bool_]) -> NkiError:
    """The error for gathering elements of these ``numbers``, (partitions, elements); some are ``outside``."""
    partition, element = (int(n) for n in np.argwhere(outside)[0])
    source, index = inst.reads()[:2]
    text = (
        f"{inst.mnemonic}: {np.count_nonzero(outside)} of {outside.size} indices from '{index.name}' lead outside "
        f"{describe_tensor(source.tensor)}, of which a partition has {source.free_elements} elements here, the first "
        f"of them {numbers[partition, element]} (number {element} of partition {partition}), and what they give is "
        "undefined"
    )
    fix = f"keep the numbers in '{index.name}' below {source.free_elements}, or leave what they give unused"
    return OutOfBoundsError(text, fix=fix).at(inst.where.span, inst.where.stack)


def early_read_error(log: ExecutionLog, tensor: Tensor, chosen: ByteGrid, read: int, adds: Inst) -> NkiError:
    """The error for bytes of a sum that were read at time ``read`` and not again after ``adds`` had added to them."""
    where = log.where(read)
    text = (
        f"{log.mnemonic(read)} reads {describe_tensor(tensor)} before its sum is complete: "
        f"{_describe(adds.mnemonic, adds.where.span, where.span)} adds to it afterwards, {first_box(tensor, chosen)}, "
        "and nothing reads what that comes to"
    )
    when = f"behind {line_of(adds.where.span, where.span)}" if adds.where.span else "when it is complete"
    fix = f"read '{tensor.name}' {when}; if a new sum begins there, pass accumulate=False to its first matmul"
    return AccumulationError(text, fix=fix).at(where.span, where.stack)


def later_writer(program: CoreProgram, by: Inst | Loop, tensor: Tensor, missing: ByteGrid) -> Inst | None:
    """The first instruction after ``by`` that writes some of the ``missing`` bytes."""
    first = (by.origin or by) if isinstance(by, Inst) else None
    is_after = False
    for inst in program.instructions():
        if not is_after:
            is_after = inst is first
            continue
        for access in inst.writes():
            if access.tensor is tensor and (access.dynamic is not None or missing.has_any(pattern_of(access))):
                return inst
    return None
