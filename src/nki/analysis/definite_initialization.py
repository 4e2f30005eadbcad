"""Definite initialization: the tensors that a program may read, or return, before it has written all that is read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from nki.analysis.access_pattern import ByteRanges
from nki.analysis.byte_sets import ByteSet
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop, Statement
from nki.ir.program import CoreProgram, Signature
from nki.ir.types import Access, Tensor

_FEW_WRITES: Final = 16
"""Writes to parts of a tensor, up to which it is compared with others; more of them take long to compare."""


class _Analysis:
    """Visits a program in order and collects the tensors that it reads where it may not have written.

    Only tensors in ``candidates`` are analysed; if that is None, all but the ``ignored`` ones.
    """

    def __init__(self, ignored: set[Tensor], candidates: set[Tensor] | None = None) -> None:
        self.ignored = ignored
        """Tensors that hold something from the beginning, or of which every byte is written; it grows."""
        self.candidates = candidates
        self.maybe_uninitialized: set[Tensor] = set()
        self.written: list[dict[Tensor, ByteSet]] = [{}]
        """The bytes written, and for each open loop that may not run the bytes written in it."""
        self.defined: set[Access] = set()
        """Accesses to bytes that are all written, whether loops run or not: they stay so."""
        self.known: dict[tuple[object, ...], bool] = {}
        """The results of :meth:`has_bytes`."""

    def visit_body(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            if isinstance(statement, Inst):
                self.visit_instruction(statement)
                continue
            for access in statement.reads():
                self.visit_read(access)
            self.visit_loop(statement)

    def visit_instruction(self, inst: Inst) -> None:
        ignored, defined, uses = self.ignored, self.defined, inst.uses()
        is_decided = True
        for access, reads, _ in uses:
            if access.tensor not in ignored and access not in defined:
                is_decided = False
                if reads:
                    self.visit_read(access)
            if access.dynamic is not None:
                self.visit_read(access.dynamic.source)
        if is_decided:  # as most instructions are
            return
        if inst.accumulates:  # it reads what it adds to (Inst.reads)
            for access in inst.writes():
                if access not in defined:
                    self.visit_read(access)
        if inst.may_leave_unwritten():
            return
        for access, _, writes in uses:
            if writes and access.tensor not in ignored and access not in defined:
                self.visit_write(access)

    def visit_loop(self, loop: Loop) -> None:
        """Visit the body. Its writes count after the loop only if the loop is known to run at least once."""
        runs = loop.runs()
        if not runs:
            self.written.append({})
        if isinstance(loop, For):
            self.visit_write(loop.register)
        self.visit_body(loop.body)
        if not runs:
            self.written.pop()

    def visit_read(self, access: Access) -> None:
        tensor = access.tensor
        if self.is_decided(tensor):
            return
        if not self.is_written(access if access.dynamic is None else Access.whole(tensor)):
            self.maybe_uninitialized.add(tensor)
        elif len(self.written) == 1:
            self.defined.add(access)

    def is_written(self, access: Access) -> bool:
        if len(self.written) == 1:
            written = self.written[0].get(access.tensor)
            return written is not None and self.has_bytes(written, access)
        parts = [layer[access.tensor] for layer in self.written if access.tensor in layer]
        if any(self.has_bytes(written, access) for written in parts):
            return True
        if len(parts) < 2:
            return False
        union = parts[0].copy()
        for written in parts[1:]:
            for part in written.patterns.values():
                union.add(part)
        return union.contains(access)

    def has_bytes(self, written: ByteSet, access: Access) -> bool:
        """True if ``written`` contains every byte of ``access``; found once for tensors that are written alike."""
        if len(written.patterns) > _FEW_WRITES:
            return written.contains(access)
        tensor = written.tensor
        parts: list[object] = [tensor.form, access.offset, access.known_form or access.form]
        for part in written.patterns.values():
            parts += part.offset, part.known_form or part.form
        key = tuple(parts)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = written.contains(access)
        return known

    def visit_write(self, access: Access) -> None:
        """Add the bytes of ``access``. A write at a run-time index may be anywhere, so it defines no byte for sure."""
        tensor = access.tensor
        if access.dynamic is not None or self.is_decided(tensor):
            return
        outermost = len(self.written) == 1
        if outermost and _is_whole(access.offset, access.shape, access.strides, access.dtype.itemsize, tensor.nbytes):
            self.ignored.add(tensor)
            return
        written = self.written[-1].get(tensor)
        if written is None:
            written = self.written[-1][tensor] = ByteSet(tensor)
        written.add(access)
        if outermost:
            self.defined.add(access)

    def is_decided(self, tensor: Tensor) -> bool:
        """True if no further access changes the result for ``tensor``."""
        if tensor in self.ignored or tensor in self.maybe_uninitialized:
            return True
        return self.candidates is not None and tensor not in self.candidates

    def is_initialized(self, tensor: Tensor) -> bool:
        return tensor in self.ignored or self.is_written(Access.whole(tensor))


@lru_cache(maxsize=1 << 12)
def _is_whole(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int, nbytes: int) -> bool:
    """True if an access of that pattern, in elements of ``size`` bytes, has every byte of a tensor of ``nbytes``."""
    return ByteRanges.of((offset, shape, strides, size)) == (0, nbytes, ())


def upward_exposed_reads(loop: Loop) -> set[Tensor]:
    """The loop-local tensors of ``loop`` of which an iteration may read bytes that it has not written itself."""
    analysis = _Analysis(set(), {*loop.tensors})
    analysis.visit_body(loop.body)
    return analysis.maybe_uninitialized


def maybe_uninitialized(core: CoreProgram, signature: Signature) -> set[Tensor]:
    """The tensors, inputs and constants aside, that ``core`` reads or returns where it may not have written.

    Native code fills those with the dtype's poison before their first use, so that a launch gives the same bits every
    time and the same as the eager executor, whose memory is poisoned from the start.
    """
    analysis = _Analysis({*signature.inputs, *core.constants()})
    analysis.visit_body(core.body)
    return analysis.maybe_uninitialized | {t for t in signature.outputs if not analysis.is_initialized(t)}
