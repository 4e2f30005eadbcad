"""Definite initialization: the tensors that a program may read, or return, before it has written all that is read."""

from __future__ import annotations

from nki.analysis.written_bytes import WriteAnalysis
from nki.ir.instruction import Inst
from nki.ir.loop import For, Loop
from nki.ir.program import CoreProgram, Signature
from nki.ir.types import Access, Tensor


class _Initialization(WriteAnalysis):
    """The must analysis: collects the tensors that a program reads where it may not have written.

    Only tensors in ``candidates`` are analysed; if that is None, all but the ``settled`` ones, which hold something
    from the beginning.
    """

    def __init__(self, settled: set[Tensor], candidates: set[Tensor] | None = None) -> None:
        super().__init__(settled)
        self.candidates = candidates
        self.maybe_uninitialized: set[Tensor] = set()

    def visit_loop(self, loop: Loop) -> None:
        """Visit the body. Its writes count after the loop only if the loop is known to run at least once."""
        for bound in loop.reads():
            self.visit_index(bound)
        runs = loop.runs()
        if not runs:
            self.written.enter_loop()
        if isinstance(loop, For):
            self.write(loop.register)
        self.visit_body(loop.body)
        if not runs:
            self.written.leave_loop(runs=False)

    def visit_read(self, inst: Inst, access: Access) -> None:  # noqa: ARG002  # as all analyses
        self.visit_index(access)

    def visit_sum(self, access: Access) -> None:
        self.visit_index(access)

    def visit_index(self, access: Access) -> None:
        tensor = access.tensor
        if self.is_decided(tensor):
            return
        if not self.written.contains(access if access.dynamic is None else Access.whole(tensor)):
            self.maybe_uninitialized.add(tensor)
        elif not self.written.is_in_loop:
            self.settled.add(access)

    def visit_write(self, inst: Inst, access: Access) -> None:
        if not inst.may_leave_unwritten():
            self.write(access)

    def write(self, access: Access) -> None:
        """Add the bytes of ``access``. A write at a run-time index may be anywhere, so it defines no byte for sure."""
        if access.dynamic is not None or self.is_decided(access.tensor):
            return
        if self.written.is_in_loop:
            self.written.add(access)
        else:
            self.record(access)

    def is_decided(self, tensor: Tensor) -> bool:
        """True if no further access changes the result for ``tensor``."""
        if tensor in self.settled_tensors or tensor in self.maybe_uninitialized:
            return True
        return self.candidates is not None and tensor not in self.candidates

    def is_initialized(self, tensor: Tensor) -> bool:
        return tensor in self.settled_tensors or self.written.contains(Access.whole(tensor))


def upward_exposed_reads(loop: Loop) -> set[Tensor]:
    """The loop-local tensors of ``loop`` from which an iteration may read bytes that it has not written itself."""
    analysis = _Initialization(set(), {*loop.tensors})
    analysis.visit_body(loop.body)
    return analysis.maybe_uninitialized


def maybe_uninitialized(core: CoreProgram, signature: Signature) -> set[Tensor]:
    """The tensors, inputs and constants aside, that ``core`` reads or returns where it may not have written.

    Native code fills those with the dtype's poison before their first use, so that a launch gives the same bits every
    time and the same as the eager executor, with its memory poisoned from the start.
    """
    analysis = _Initialization({*signature.inputs, *core.constants()})
    analysis.visit_body(core.body)
    return analysis.maybe_uninitialized | {t for t in signature.outputs if not analysis.is_initialized(t)}
