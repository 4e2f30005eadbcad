"""Nothing changes programs that validation does not see: whatever the source has is found in it, and seen at work.

:mod:`tests.proofs.transformations` finds the stages, functions and rules. Each of them has to change the program of a
kernel that test_stages.py and test_native_stages.py validate, or to stand here with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from nki import target as targets
from nki.backend.cpu.kernel_ir import lower
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.compilation import float_arguments
from nki.compilation.executable import NATIVE_STAGES
from nki.compilation.pipeline import NATIVE_STOP, STAGES
from nki.ir.program import CoreProgram, Program
from nki.ir.stage import Stage
from nki.profiling.suggestions.program_rewrites import ProgramRewrite
from nki.transforms.promote_float32 import PromoteFloat32
from tests.proofs.stage_kernels import PROFILED, SUBJECTS, TRIGGERS, with_profiled
from tests.proofs.test_native_stages import PAIRS, on_processor
from tests.proofs.test_stages import NIGHTLY, SLOW
from tests.proofs.transformations import Changes, contents, functions, stages
from tests.support.kernel_ir_run import is_lowered

USED: Final[tuple[Stage, ...]] = (*STAGES, *PROFILED, *NATIVE_STAGES, PromoteFloat32())
EXCUSED: Final = {
    "Verify": "refuses programs, and changes none",
    "CheckHazards": "refuses programs, and changes none",
    "_Made": "a change that a profile suggests: another program on purpose, which is timed and never run",
    "passes/schedule.py:in_program_order": "another order for a profile to replay, and never run; test_assumptions.py "
    "compares it with the order of Schedule(reorder=False)",
    "passes/schedule.py:_core_in_order": "a part of in_program_order",
    "compilation/executable.py:lower": "runs the native stages one after the other, as the tests do",
    "compilation/float_arguments.py:for_formulas": "what for_values does, with the values of a launch by their text",
    "compilation/output_arguments.py:_only_written": "makes a program to ask it a question, and drops it",
}
"""What changes no program that is validated, and why that is right."""
ENOUGH: Final = [
    *(name for name in TRIGGERS if name not in SLOW),
    *("rms_norm_backward", "causal_attention", "causal_softmax", "layernorm", "matmul_bfloat16"),
]
"""Kernels in which everything is at work; nightly tests count all kernels."""
TABLE: Final = Path(__file__).parents[2] / "docs" / "proofs.md"


def seen(name: str, patch: pytest.MonkeyPatch, changes: Changes) -> None:
    """Note what changes programs while the kernel is compiled as the tests of validation compile it."""
    subject = SUBJECTS[name]
    with changes.watched(name):
        usual, profiled = subject.programs(), subject.programs(with_profiled())
        program = usual[NATIVE_STOP]
        if program.signature.floats:
            float_arguments.for_values(program, {})
    steps = [(stage.name, *pair) for stage, *pair in _pairs(usual)]
    steps += [(stage.name, *pair) for stage, *pair in _pairs(profiled) if stage in PROFILED]
    for kind in PAIRS:
        on_processor(kind, patch)
        program = usual[NATIVE_STOP]
        with changes.watched(name):
            wide = PromoteFloat32().run(program, targets.find(program.target))
            for stage in NATIVE_STAGES:
                before, program = program, stage.run(program, targets.find(program.target))
                steps.append((stage.name, before, program))
            for inst in filter(is_lowered, program.instructions()):
                lower.lower(inst, aliases(inst))
        steps.append((PromoteFloat32.name, wide.with_cores(map(_without_places, usual[NATIVE_STOP].cores)), wide))
    for stage, before, after in steps:
        if contents(before) != contents(after):
            changes.note(stage)


def _without_places(core: CoreProgram) -> CoreProgram:
    return core.with_placement({})


def _pairs(programs: dict[str, Program]) -> Iterator[tuple[Stage, Program, Program]]:
    """Each stage that has run, with the programs before and behind it."""
    by_name = {stage.name: stage for stage in USED}
    names = list(programs)
    for before, name in pairwise(names):
        yield by_name[name], programs[before], programs[name]


@pytest.fixture(scope="module")
def changes() -> Changes:
    """What changes the programs of kernels."""
    found = Changes()
    for name in SUBJECTS if NIGHTLY else ENOUGH:
        with pytest.MonkeyPatch.context() as patch:
            seen(name, patch, found)
    return found


@pytest.mark.filterwarnings("ignore::nki.NkiSpillWarning")
def test_everything_that_changes_programs_is_seen_at_work(changes: Changes) -> None:
    names = {type(stage).__name__: stage.name for stage in USED}
    assert stages() - names.keys() - EXCUSED.keys() == set(), "validate these stages, or give a reason"
    needed = {names.get(stage, stage) for stage in stages() - EXCUSED.keys()} | (functions() - EXCUSED.keys())
    assert needed - changes.by_subject.keys() == set(), "no kernel that is validated needs these: add one that does"
    assert EXCUSED.keys() <= stages() | functions(), "what is excused is gone"
    assert {rule.__name__ for rule in lower.RULES} <= {name.partition(":")[2] for name in functions()}


def test_what_is_excused_changes_nothing(changes: Changes) -> None:
    assert not changes.by_subject.keys() & {"verify", "hazards", *EXCUSED}
    assert {each.__module__.rpartition(".")[0] for each in _subclasses(ProgramRewrite)} == {"nki.profiling.suggestions"}


def _subclasses(cls: type) -> set[type]:
    return {each for child in cls.__subclasses__() for each in (child, *_subclasses(child))}


def rows() -> dict[str, int]:
    """The table of docs/proofs.md: by stage, function or rule how many kernels it changes."""
    found = re.findall(r"^\| `(\w+)` \|[^|]*\| (\d+) \|", TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: int(count) for name, count in found}


def test_the_table_has_each_stage(changes: Changes) -> None:
    counts = {name.rpartition(":")[2].rpartition(".")[2]: len(of) for name, of in changes.by_subject.items()}
    table = rows()
    assert {stage.name for stage in USED if type(stage).__name__ not in EXCUSED} <= table.keys()
    assert {rule.__name__ for rule in lower.RULES} <= table.keys()
    wrong = {name: counts.get(name) for name, count in table.items() if NIGHTLY and counts.get(name) != count}
    assert not wrong, "docs/proofs.md has other numbers"
