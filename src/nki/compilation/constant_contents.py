"""Operands with contents that the reference asks for, where these are constant: known before any run.

The instructions that make such an operand run in the NumPy executor if they read nothing but constants and what such
instructions have written: ``nl.shared_identity_matrix``, ``nisa.memset``, ``nisa.iota``, ``nisa.affine_select``.
Arguments of the kernel, run-time indices, random numbers and what other cores write are not known.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nki.analysis.access_pattern import pattern_of
from nki.backend.numpy.executor import Reference
from nki.backend.numpy.memory import Memory
from nki.ir.instruction import Inst
from nki.ir.loop import Loop, Statement, instructions
from nki.ir.program import Program
from nki.ir.types import Access, Buffer, Tensor
from nki.sim.hazards.required_contents import check_contents, required_contents
from nki.sim.hazards.shadow import FIRST_ORIGIN, AccessTimes


def check(program: Program) -> None:
    """Raise, or warn, if an operand of ``program`` has constant contents that the reference forbids."""
    for core in program.cores:
        _Constants(core.body).run(core.body)


class _Constants:
    """The constant bytes of the tensors from which the contents in question come."""

    def __init__(self, body: Iterable[Statement]) -> None:
        self._memory = Memory()
        self._executor = Reference(self._memory)
        insts = list(instructions(body))
        self._asking = {form for form, inst in {inst.form: inst for inst in insts}.items() if required_contents(inst)}
        """The forms of instructions that ask for contents."""
        self._tensors = _sources([inst for inst in insts if inst.form in self._asking], insts)
        self._known: dict[Tensor, AccessTimes] = {}
        self._right: dict[Tensor, set[object]] = {}
        """Of each tensor, since it was written: the operands that hold what the reference asks of them."""
        self._is_certain = True
        """The instruction runs whatever the data are."""

    def run(self, body: Iterable[Statement]) -> None:
        """Check the instructions of ``body``, and run the constant ones."""
        for statement in body:
            if isinstance(statement, Inst):
                self._run(statement)
            else:
                self._run_loop(statement)

    def _run(self, inst: Inst) -> None:
        if self._is_certain and inst.form in self._asking:
            for required in required_contents(inst):
                right = self._right.setdefault(required.operand.tensor, set())
                asked = pattern_of(required.operand), required.operand.dtype, required.wrong
                unsure = asked not in right and self._is_known(required.operand)
                if unsure and check_contents(inst, required, self._memory):
                    right.add(asked)
        written = [access for access in inst.writes() if access.tensor in self._tensors]
        if not written:
            return
        if self._is_constant(inst):
            self._executor.execute(inst)
            for access in written:
                self._times(access.tensor).record(access, 2)
                self._right.pop(access.tensor, None)
        else:
            self._forget(written)

    def _run_loop(self, loop: Loop) -> None:
        """The next round may read what a round leaves, and so may instructions behind the last one, if there is one."""
        written = [a for inst in instructions(loop.body) for a in inst.writes() if a.tensor in self._tensors]
        self._forget(written)
        before, self._is_certain = self._is_certain, self._is_certain and loop.runs()
        self.run(loop.body)
        if not loop.runs():
            self._forget(written)
        self._is_certain = before

    def _is_constant(self, inst: Inst) -> bool:
        """True if ``inst`` writes the same in every run."""
        if inst.effects.external or inst.indexed_by() or inst.may_leave_unwritten():
            return False
        written = inst.writes()
        if any(a.tensor.address is not None or a.buffer is Buffer.shared_hbm for a in written):
            return False  # other tiles and other cores may write there
        return all(map(self._is_known, inst.reads()))

    def _is_known(self, access: Access) -> bool:
        return access.dynamic is None and self._times(access.tensor).is_defined(access)

    def _times(self, tensor: Tensor) -> AccessTimes:
        times = self._known.get(tensor)
        if times is None:
            times = self._known[tensor] = AccessTimes(tensor, whole=tensor.data is not None)
        return times

    def _forget(self, written: Iterable[Access]) -> None:
        for access in written:
            place = access if access.dynamic is None else Access.whole(access.tensor)
            self._right.pop(access.tensor, None)
            self._times(access.tensor).poison(place, np.full(place.shape, FIRST_ORIGIN, np.int32))


def _sources(asking: Iterable[Inst], insts: Iterable[Inst]) -> set[Tensor]:
    """The tensors that the contents come from that instructions are ``asking`` for."""
    pending = [required.operand.tensor for inst in asking for required in required_contents(inst)]
    found = set(pending)
    writers: dict[Tensor, list[Inst]] = {}
    for inst in insts if found else ():
        for access in inst.writes():
            writers.setdefault(access.tensor, []).append(inst)
    while pending:
        read = {access.tensor for inst in writers.get(pending.pop(), ()) for access in inst.reads()}
        pending += read - found
        found |= read
    return found
