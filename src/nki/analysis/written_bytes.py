"""Written bytes: the state of forward analyses over a program, and the walk that two of them share.

A *must* analysis keeps what every path to a statement has written, so it drops the writes of loops that may run no
iteration. A *may* analysis keeps what some path has written, so it drops nothing. :mod:`definite_initialization
<nki.analysis.definite_initialization>` and :mod:`psum_state <nki.analysis.psum_state>` are of the first kind,
:mod:`may_hazards <nki.analysis.may_hazards>` is of the second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from nki.analysis.access_pattern import ByteRanges, pattern_of
from nki.analysis.byte_sets import ByteSet, Mask
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement
from nki.ir.types import Access, Tensor

_FEW_WRITES: Final = 16
"""Writes to parts of a tensor, up to which it is compared with others; more of them take long to compare."""


class WrittenBytes:
    """The bytes of each tensor that are written at one point of a program."""

    __slots__ = ("_before", "_known", "of")

    def __init__(self) -> None:
        self.of: dict[Tensor, ByteSet] = {}
        self._before: list[dict[Tensor, ByteSet | None]] = []
        """For each open loop, the bytes of the tensors that it writes, as they were before; None: no bytes."""
        self._known: dict[tuple[object, ...], bool] = {}
        """The results of :meth:`contains`: tiles of unrolled loops are written and read alike."""

    @property
    def is_in_loop(self) -> bool:
        """True if the writes of an open loop may be dropped."""
        return bool(self._before)

    def enter_loop(self) -> None:
        """The body of a loop begins."""
        self._before.append({})

    def leave_loop(self, *, runs: bool) -> list[Tensor]:
        """The body ends. Unless the loop ``runs`` at least once, its writes are dropped: the tensors with such."""
        before = self._before.pop()
        if runs:
            if self._before:
                self._before[-1] = before | self._before[-1]
            return []
        for tensor, earlier in before.items():
            if earlier is None:
                del self.of[tensor]
            else:
                self.of[tensor] = earlier
        return list(before)

    def add(self, access: Access) -> ByteSet:
        """Add the bytes of ``access``; all that is written of its tensor."""
        tensor = access.tensor
        written = self.of.get(tensor)
        if self._before and tensor not in self._before[-1]:
            if written is None:
                self._before[-1][tensor] = None
            elif pattern_of(access) not in written.patterns:
                self._before[-1][tensor] = written.copy()
        if written is None:
            written = self.of[tensor] = ByteSet(tensor)
        written.add(access)
        return written

    def contains(self, access: Access) -> bool:
        """True if every byte of ``access`` is written; found once for tensors that are written alike."""
        written = self.of.get(access.tensor)
        if written is None:
            return False
        if pattern_of(access) in written.patterns:
            return True
        if len(written.patterns) > _FEW_WRITES:
            return written.contains(access)
        parts: list[object] = [access.tensor.form, access.offset, access.form]
        for part in written.patterns.values():
            parts += part.offset, part.form
        key = tuple(parts)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = written.contains(access)
        return known

    def missing(self, access: Access) -> Mask | None:
        """The elements of ``access``, in its shape, that are not all written; None if there are none."""
        return self.of.get(access.tensor, ByteSet(access.tensor)).missing(access)


class WriteAnalysis(ABC):
    """Visits the statements of a program in order, with the bytes that they have written.

    What is settled is not visited again: most accesses of a program.
    """

    def __init__(self, settled: set[Tensor]) -> None:
        self.written = WrittenBytes()
        self.settled_tensors = settled
        """Tensors with no further questions: all of their bytes are written. It grows."""
        self.settled: set[Access] = set()
        """Accesses with no further questions: all of their bytes are written."""

    def visit_body(self, statements: Sequence[Statement]) -> None:
        """Visit ``statements``."""
        for statement in statements:
            if isinstance(statement, Inst):
                self.visit_instruction(statement)
            else:
                self.visit_loop(statement)

    def visit_instruction(self, inst: Inst) -> None:
        """Visit the accesses of ``inst`` that are not settled: those that it reads before those that it writes."""
        tensors, settled, uses = self.settled_tensors, self.settled, inst.uses()
        is_settled = True
        for access, reads, writes in uses:
            if access.tensor not in tensors and access not in settled:
                is_settled = False
                if reads:
                    self.visit_read(inst, access)
                if writes and inst.accumulates:
                    self.visit_sum(access)
            if access.dynamic is not None:
                self.visit_index(access.dynamic.source)
        if is_settled:  # as most instructions are
            return
        for access, _, writes in uses:
            if writes and access.tensor not in tensors and access not in settled:
                self.visit_write(inst, access)

    @abstractmethod
    def visit_loop(self, loop: Loop) -> None:
        """Visit the bounds and the body of ``loop``."""

    @abstractmethod
    def visit_index(self, access: Access) -> None:
        """``access`` decides the place of another one, or the iterations of a loop."""

    @abstractmethod
    def visit_read(self, inst: Inst, access: Access) -> None:
        """``inst`` reads ``access``."""

    @abstractmethod
    def visit_sum(self, access: Access) -> None:
        """An instruction adds to ``access``."""

    @abstractmethod
    def visit_write(self, inst: Inst, access: Access) -> None:
        """``inst`` writes ``access``."""

    def record(self, access: Access) -> None:
        """Add the bytes of ``access``, in which nothing is left to ask, to what is written for good."""
        tensor = access.tensor
        if access.is_whole() or _has_all_bytes(
            access.offset, access.shape, access.strides, access.dtype.itemsize, tensor.nbytes
        ):
            self.settled_tensors.add(tensor)
        else:
            self.written.add(access)
            self.settled.add(access)


@lru_cache(maxsize=1 << 12)
def _has_all_bytes(offset: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int, nbytes: int) -> bool:
    """True if an access of that pattern, in elements of ``size`` bytes, has every byte of a tensor of ``nbytes``."""
    return ByteRanges.of((offset, shape, strides, size)) == (0, nbytes, ())
