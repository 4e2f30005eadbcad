"""Stage ``hazards``: no run of the program has undefined results whatever the data are (``docs/hazards.md``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nki.analysis.may_hazards import suspicion_of
from nki.base import knobs
from nki.base.locks import imported
from nki.ir.program import Program
from nki.ir.stage import Stage
from nki.target.model import Target


@dataclass(frozen=True)
class CheckHazards(Stage):
    """Stage ``hazards``."""

    name: ClassVar[str] = "hazards"

    def run(self, program: Program, target: Target) -> Program:
        """``program`` itself. Raises the error that the simulator would raise, unless ``OPEN_NKI_HAZARDS=0``."""
        if not knobs.hazards():
            return program
        # Few programs need more, so `import nki` does not load the simulator.
        suspicion = suspicion_of(program)
        if suspicion.of_hazards:
            imported("nki.sim.hazards.replay").check(program, target)
        elif suspicion:
            imported("nki.sim.hazards.replay").warn_of_writes(program, target, suspicion.of_writes)
        of_form = {inst.form: inst for inst in program.instructions()}
        asks = ((inst.effects.contents, inst) for inst in of_form.values())
        if any(contents is not None and contents(inst) for contents, inst in asks):
            imported("nki.compilation.constant_contents").check(program)
        return program

    def check(self, before: Program, after: Program, target: Target) -> None:  # noqa: ARG002  # as all stages
        """Nothing has changed."""
        assert after is before, "the search for hazards changes nothing"
