"""Translation validation: every stage of the compiler keeps what kernels compute.

The program after each stage is evaluated over a random field, in the bytes and in the orders of queues that the stage
has chosen, and has the outputs of the program after ``accumulate``, element by element: both are the same function of
the inputs over the real numbers, but for the probability of docs/proofs.md. Kernels in which numbers decide what is
computed have these inputs known, and their outputs are compared for the arguments of the corpus.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import pytest

from nki.compilation import float_arguments
from nki.ir.program import Program
from nki.proofs.executor import Prover
from nki.proofs.symbols import UndecidedError
from tests.kernels.case import CASES
from tests.proofs.stage_kernels import PROFILED, SUBJECTS, TRIGGERS, field_of, unknown_of, with_profiled
from tests.proofs.transformations import contents
from tests.support.kernel_ir_run import LoopProver
from tests.support.symbolic_run import FLOATS, NOTHING, SYMBOLS, Accumulating, Field, Outputs, difference

NIGHTLY: Final = int(os.environ.get("NKI_TEST_EXAMPLES", "0")) > 50
SLOW: Final = (
    "matmul_tiled", "mx_product", "mx_product_of_4_and_8_bits", "product_by_tiles", "attention_backward", "attention",
    "profiled loads",
)  # fmt: skip
"""Kernels that take seconds for each stage."""
FEW: Final = [name for number, name in enumerate(CASES) if name not in SLOW and number % 2 == 0]
NAMES: Final = (
    list(SUBJECTS) if NIGHTLY else [*FEW, *(name for name in TRIGGERS if name not in SLOW and name != "narrow product")]
)
ORDERS: Final = 8 if NIGHTLY else 2
REFERENCE: Final = "accumulate"
"""The stage after which programs say all that they compute."""
pytestmark = pytest.mark.filterwarnings("ignore::nki.NkiSpillWarning")


def evaluations(stage: str, program: Program, field: Field) -> Iterator[tuple[str, Outputs]]:
    """The outputs of the program after ``stage``, in each way in which it may run."""
    placed = any(core.placement for core in program.cores)
    yield "in order", field.outputs(program, placed=placed)
    if stage == "sync":
        for seed in range(ORDERS):
            yield f"in the order of queues {seed}", field.outputs(program, placed=True, order=seed)


def complaint(stage: str, program: Program, field: Field, expected: Outputs) -> str:
    """In what the program after ``stage`` differs from what is ``expected``; "" if it is the same function."""
    try:
        for how, outputs in evaluations(stage, program, field):
            if differs := difference(expected, outputs):
                return f"{differs} {how}"
    except UndecidedError as error:
        return str(error)
    return ""


def validate(after: dict[str, Program], field: Field, stages: Sequence[str] = ()) -> None:
    """Each of these ``stages``, by default all behind the reference, that changes its program keeps the outputs."""
    expected = field.expected(after[REFERENCE])
    names = list(after)
    chosen = stages or names[names.index(REFERENCE) + 1 :]
    for before, stage in pairwise(names):
        if stage in chosen and (contents(after[stage]) != contents(after[before]) or stage == "sync"):
            assert not complaint(stage, after[stage], field, expected), stage


@pytest.mark.parametrize("name", NAMES)
def test_stages_keep_what_a_kernel_computes(name: str) -> None:
    validate(SUBJECTS[name].programs(), field_of(name))


@pytest.mark.parametrize("name", [name for name in NAMES if not SUBJECTS[name].spills])
def test_what_profiles_keep_in_tiles_is_the_same(name: str) -> None:
    """Stages that only predictions run, and what the other stages make of their programs."""
    after = SUBJECTS[name].programs(with_profiled())
    if any(contents(after[stage]) != contents(after["order"]) for stage in PROFILED.names):
        validate(after, field_of(name), (*PROFILED.names, "allocate", "sync"))


@pytest.mark.parametrize("name", NAMES)
def test_accumulate_decides_as_a_run_would(name: str) -> None:
    """Behind the reference stands an executor that looks, at each product, which elements were written."""
    after, field = SUBJECTS[name].programs(), field_of(name)
    if contents(after[REFERENCE]) != contents(after["verify"]):
        expected = field.expected(after["verify"], Accumulating)
        assert not difference(expected, field.expected(after[REFERENCE]))


def test_floats_of_a_launch_are_the_numbers_that_a_program_was_made_for() -> None:
    subject, field = SUBJECTS["floats"], field_of("floats")
    program = subject.programs()[REFERENCE]
    assert [spec.name for spec in program.signature.floats] == ["rate"], "Python has asked about the other one"
    expected = field.expected(program)
    for made in (float_arguments.for_values(program, {}), float_arguments.for_values(program, {"rate": 0.75})):
        assert not made.signature.floats
        for prover in (Prover, LoopProver):
            assert not difference(expected, field.outputs(made, prover=prover))
    other = float_arguments.for_values(program, {"rate": 0.5})
    assert difference(expected, field.outputs(other)), "another number is another function"


@pytest.mark.parametrize("name", [name for name in NAMES if name in CASES and unknown_of(name) is not SYMBOLS])
def test_inputs_are_known_only_where_they_must_be(name: str) -> None:
    program = SUBJECTS[name].programs()[REFERENCE]
    more = FLOATS if unknown_of(name) is NOTHING else SYMBOLS
    with pytest.raises(UndecidedError):
        Field(1, CASES[name].arrays(), more).outputs(program)
