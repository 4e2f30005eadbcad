"""Translation validation of native code: its stages, and the rules of the kernel IR, keep what kernels compute.

Programs run over a random field by their kernel IR, statement by statement, and have the outputs of the instructions'
semantics after ``accumulate`` (see test_stages.py). Two kinds of processors are stood for: ones that multiply pairs
of bfloat16, for which stages choose other layouts and one that no other processor needs, and ones that do not.
"""

from __future__ import annotations

from typing import Final

import pytest

from nki import target as targets
from nki.backend.cpu.fusion import epilogue
from nki.backend.cpu.kernel_ir import lower, lowering_algebra
from nki.compilation.executable import NATIVE_STAGES
from nki.compilation.pipeline import NATIVE_STOP
from nki.ir.program import Program
from nki.numerics.matmul import host
from nki.numerics.matmul.contract import BLOCK
from nki.proofs.executor import Prover
from nki.proofs.symbols import UndecidedError
from nki.transforms.promote_float32 import PromoteFloat32
from tests.proofs.stage_kernels import SUBJECTS, field_of
from tests.proofs.test_stages import FEW, NAMES, NIGHTLY, REFERENCE, SYMBOLS
from tests.proofs.transformations import contents
from tests.support.compiled_anew import anew
from tests.support.kernel_ir_run import LoopProver
from tests.support.symbolic_run import Field, Outputs, difference

PAIRS: Final = ("pairs", "floats")
WITH_PAIRS: Final = ("narrow product", "causal_attention", "shared banks", "matmul_bfloat16")
"""Kernels that are other ones on processors with pairs; in nightly tests all are asked."""
pytestmark = pytest.mark.filterwarnings("ignore::nki.NkiSpillWarning")


def on_processor(kind: str, patch: pytest.MonkeyPatch) -> None:
    """Let stages find a processor that multiplies ``"pairs"`` of bfloat16, or one that does not."""
    anew(patch)
    for module in (host, lowering_algebra, epilogue):
        patch.setattr(module, "bf16_unit", lambda: object() if kind == "pairs" else None)
    for module in (host, lowering_algebra):
        patch.setattr(module, "columns_of_block", lambda: BLOCK)


def complaint(program: Program, field: Field, expected: Outputs, prover: type[Prover] = LoopProver) -> str:
    """In what ``program`` differs from what is ``expected``; "" if it is the same function."""
    try:
        return difference(expected, field.outputs(program, prover=prover))
    except UndecidedError as error:
        return str(error)


def validate(name: str) -> None:
    """Each stage that changes the program keeps the outputs."""
    after, field = SUBJECTS[name].programs(), field_of(name)
    expected = field.expected(after[REFERENCE])
    program = after[NATIVE_STOP]
    target = targets.find(program.target)
    assert not complaint(program, field, expected), "the kernel IR of its instructions"
    for stage in NATIVE_STAGES:
        before, program = program, stage.run(program, target)
        assert contents(program) == contents(before) or not complaint(program, field, expected), stage.name


def lowered(program: Program) -> Program:
    """``program`` after the last native stage."""
    for stage in NATIVE_STAGES:
        program = stage.run(program, targets.find(program.target))
    return program


@pytest.mark.parametrize("name", NAMES if NIGHTLY else [name for name in NAMES if name not in ("spills", "two ranks")])
def test_native_stages_keep_what_a_kernel_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_processor("floats", monkeypatch)
    validate(name)


@pytest.mark.parametrize("name", NAMES if NIGHTLY else WITH_PAIRS)
def test_native_stages_with_pairs_keep_what_a_kernel_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_processor("pairs", monkeypatch)
    validate(name)


@pytest.mark.parametrize("name", [n for n in (NAMES if NIGHTLY else FEW[1::2]) if SUBJECTS[n].unknown is SYMBOLS])
def test_float32_in_place_of_low_precision_is_the_same_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_processor("floats", monkeypatch)
    after, field = SUBJECTS[name].programs(), field_of(name)
    program = after[NATIVE_STOP]
    wide = PromoteFloat32().run(program, targets.find(program.target))
    assert not complaint(wide, field, field.expected(after[REFERENCE]))


@pytest.mark.parametrize("name", NAMES if NIGHTLY else [*FEW, "rms_norm_backward"])
def test_each_rule_keeps_what_a_kernel_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_processor("floats", monkeypatch)
    after, field = SUBJECTS[name].programs(), field_of(name)
    expected = field.expected(after[REFERENCE])
    for count, rule in enumerate(lower.RULES):
        with monkeypatch.context() as patch:
            anew(patch)
            patch.setattr(lower, "RULES", lower.RULES[:count])
            assert not complaint(lowered(after[NATIVE_STOP]), field, expected), f"before {rule.__name__}"
