"""Translation validation: every stage of the compiler keeps what the kernels of the corpus compute.

The program after each stage is evaluated over a random field, in the bytes and in the orders of queues that the stage
has chosen, and has the outputs of the program after ``accumulate``, element by element: both are the same function of
the inputs over the real numbers, but for the probability of docs/proofs.md. Kernels in which numbers decide what is
computed have these inputs known, and their outputs are compared for the arguments of the corpus.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import pytest

from nki.compilation import pipeline
from nki.ir.program import Program
from nki.jit import adapter_for
from nki.proofs.symbols import UndecidedError
from nki.target import ENVIRONMENT
from tests.kernels import test_corpus  # noqa: F401  # enters the kernels into the corpus
from tests.kernels.case import CASES, Case
from tests.support.symbolic_run import FLOATS, NOTHING, SYMBOLS, Field, Outputs, difference

NIGHTLY: Final = int(os.environ.get("NKI_TEST_EXAMPLES", "0")) > 50
SLOW: Final = ("matmul_tiled", "mx_product", "mx_product_of_4_and_8_bits", "product_by_tiles")
"""Kernels that take seconds for each stage."""
FEW: Final = [name for number, name in enumerate(CASES) if name not in SLOW and number % 2 == 0]
NAMES: Final = list(CASES) if NIGHTLY else FEW
ORDERS: Final = 8 if NIGHTLY else 2
REFERENCE: Final = "accumulate"
"""The stage after which programs say all that they compute."""
CHOSEN_BY_INTEGERS: Final = {
    "transposes", "mx_product", "mx_product_of_4_and_8_bits", "sum_of_pages_by_int32", "sum_of_pages_by_int64",
}  # fmt: skip
CHOSEN_BY_NUMBERS: Final = {
    "elements_in_place", "matmul_of_chosen_columns", "mx_quantised_here", "mx_words", "top_k",
}  # fmt: skip


def unknown_of(name: str) -> str:
    """The inputs of a kernel of the corpus that are not known."""
    return NOTHING if name in CHOSEN_BY_NUMBERS else FLOATS if name in CHOSEN_BY_INTEGERS else SYMBOLS


def field_of(name: str) -> Field:
    return Field(1_000 + list(CASES).index(name), CASES[name].arrays(), unknown_of(name))


def programs(case: Case, patch: pytest.MonkeyPatch) -> dict[str, Program]:
    """The program of a kernel after each stage."""
    patch.setenv(ENVIRONMENT, case.targets[-1])
    kernel, arguments = case.kernel, tuple(case.arguments())
    specs = kernel.specs(kernel.bind(arguments, {}), adapter_for(arguments, {}))
    found: dict[str, Program] = {}
    pipeline.compile(
        kernel.func,
        specs,
        kernel.chosen_target(),
        grid=kernel.grid,
        edges=kernel.schedule,
        observe=found.__setitem__,
        configs=kernel.configs,
    )
    return found


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


@pytest.mark.parametrize("name", NAMES)
def test_stages_keep_what_a_kernel_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    after, field = programs(CASES[name], monkeypatch), field_of(name)
    expected = field.outputs(after[REFERENCE])
    stages = list(after)
    for before, stage in pairwise(stages):
        is_new = after[stage] is not after[before] or stage == "sync"
        if stages.index(stage) > stages.index(REFERENCE) and is_new:
            assert not complaint(stage, after[stage], field, expected), stage


@pytest.mark.parametrize("name", [name for name in NAMES if unknown_of(name) is not SYMBOLS])
def test_inputs_are_known_only_where_they_must_be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = programs(CASES[name], monkeypatch)[REFERENCE]
    more = FLOATS if unknown_of(name) is NOTHING else SYMBOLS
    with pytest.raises(UndecidedError):
        Field(1, CASES[name].arrays(), more).outputs(program)
