"""Translation validation of native code: its stages, and the rules of the kernel IR, keep what kernels compute.

Programs run over a random field by their kernel IR, statement by statement, and have the outputs of the instructions'
semantics after ``accumulate`` (see test_stages.py).
"""

from __future__ import annotations

from typing import Final

import pytest

from nki import target as targets
from nki.backend.cpu.kernel_ir import lower
from nki.compilation.executable import NATIVE_STAGES
from nki.compilation.pipeline import NATIVE_STOP
from nki.ir.program import Program
from nki.proofs.executor import Prover
from nki.proofs.symbols import UndecidedError
from nki.transforms.promote_float32 import PromoteFloat32
from tests.kernels.case import CASES
from tests.proofs import test_stages as stages
from tests.proofs.test_stages import NAMES, NOTHING, REFERENCE, SYMBOLS, programs, unknown_of
from tests.support.compiled_anew import anew
from tests.support.kernel_ir_run import LoopProver
from tests.support.symbolic_run import Field, Outputs, difference

LAYOUTS = "layouts"
WITHOUT_LAYOUTS = NATIVE_STAGES.without(LAYOUTS)
"""In a tile with a layout elements lie in other places, which the kernel IR counts."""


COMPARED: Final = {"random_bits"}
"""Kernels that are compared for the arguments of the corpus: bits of a copy are other unknowns than the ones of
an input."""


def field_of(name: str) -> Field:
    return Field(1, CASES[name].arrays(), NOTHING) if name in COMPARED else stages.field_of(name)


def complaint(program: Program, field: Field, expected: Outputs, prover: type[Prover] = LoopProver) -> str:
    """In what ``program`` differs from what is ``expected``; "" if it is the same function."""
    try:
        return difference(expected, field.outputs(program, prover=prover))
    except UndecidedError as error:
        return str(error)


@pytest.mark.parametrize("name", NAMES)
def test_native_stages_keep_what_a_kernel_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    after, field = programs(CASES[name], monkeypatch), field_of(name)
    expected = field.outputs(after[REFERENCE])
    program = after[NATIVE_STOP]
    target = targets.find(program.target)
    assert not complaint(program, field, expected), "the kernel IR of its instructions"
    for stage in WITHOUT_LAYOUTS:
        before, program = program, stage.run(program, target)
        assert program == before or not complaint(program, field, expected), stage.name


@pytest.mark.parametrize("name", NAMES)
def test_layouts_keep_what_a_kernel_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    after, field = programs(CASES[name], monkeypatch), field_of(name)
    program = after[NATIVE_STOP]
    for stage in NATIVE_STAGES[: NATIVE_STAGES.names.index(LAYOUTS) + 1]:
        program = stage.run(program, targets.find(program.target))
    assert not complaint(program, field, field.outputs(after[REFERENCE]), Prover)


@pytest.mark.parametrize("name", [name for name in NAMES if unknown_of(name) is SYMBOLS])
def test_float32_in_place_of_low_precision_is_the_same_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    after, field = programs(CASES[name], monkeypatch), field_of(name)
    program = after[NATIVE_STOP]
    wide = PromoteFloat32().run(program, targets.find(program.target))
    assert not complaint(wide, field, field.outputs(after[REFERENCE]))


@pytest.mark.parametrize("name", NAMES)
def test_each_rule_keeps_what_a_kernel_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    after, field = programs(CASES[name], monkeypatch), field_of(name)
    expected = field.outputs(after[REFERENCE])
    program = after[NATIVE_STOP]
    for stage in WITHOUT_LAYOUTS:
        program = stage.run(program, targets.find(program.target))
    for count, rule in enumerate(lower.RULES):
        with monkeypatch.context() as patch:
            anew(patch)
            patch.setattr(lower, "RULES", lower.RULES[:count])
            assert not complaint(program, field, expected), f"before {rule.__name__}"
