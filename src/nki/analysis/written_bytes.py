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

import numpy as np

from nki.analysis.access_pattern import AccessPattern, ByteRanges, pattern_of
from nki.analysis.byte_sets import ByteSet, Mask
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement
from nki.ir.types import Access, Tensor


class WrittenBytes:
    """The bytes of each tensor that are written at one point of a program.

    Tiles of unrolled loops are written and read alike. So tensors of one form with the same writes in the same order
    have one number, and a question about one of them is answered for all.
    """

    __slots__ = ("_all_missing", "_answers", "_before", "_number", "_numbers", "of")

    def __init__(self) -> None:
        self.of: dict[Tensor, ByteSet] = {}
        self._number: dict[Tensor, int] = {}
        self._before: list[dict[Tensor, tuple[ByteSet, int] | None]] = []
        """For each open loop, bytes and number of the tensors that it writes, as they were before; None: no bytes."""
        self._numbers: dict[tuple[object, AccessPattern], int] = {}
        """By the number of a tensor, or the form of one without writes, and its next write: its number then."""
        self._answers: dict[tuple[int, AccessPattern], bool] = {}
        """The results of :meth:`contains`, by the number of the tensor."""
        self._all_missing: dict[tuple[int, AccessPattern], bool] = {}
        """The same of :meth:`missing`, where that is all of the elements, or none."""

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
                self.of[tensor], self._number[tensor] = earlier
        return list(before)

    def add(self, access: Access) -> ByteSet:
        """Add the bytes of ``access``; all that is written of its tensor."""
        tensor, pattern = access.tensor, pattern_of(access)
        written = self.of.get(tensor)
        if written is not None and pattern in written.patterns:
            return written
        before = tensor.form if written is None else self._number[tensor]
        if self._before and tensor not in self._before[-1]:
            self._before[-1][tensor] = None if written is None else (written.copy(), self._number[tensor])
        if written is None:
            written = self.of[tensor] = ByteSet(tensor)
        self._number[tensor] = self._numbers.setdefault((before, pattern), len(self._numbers))
        written.add(access)
        return written

    def contains(self, access: Access) -> bool:
        """True if every byte of ``access`` is written."""
        written = self.of.get(access.tensor)
        if written is None:
            return False
        pattern = pattern_of(access)
        if pattern in written.patterns:
            return True
        key = self._number[access.tensor], pattern
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = written.contains(access)
        return answer

    def missing(self, access: Access) -> Mask | None:
        """The elements of ``access``, in its shape, that are not all written; None if there are none."""
        written = self.of.get(access.tensor)
        if written is None:
            return np.ones(access.shape, np.bool_)
        key = self._number[access.tensor], pattern_of(access)
        all_missing = self._all_missing.get(key)
        if all_missing is not None:
            return np.ones(access.shape, np.bool_) if all_missing else None
        found = written.missing(access)
        if found is None or found.all():
            self._all_missing[key] = found is not None
        return found


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
