"""Programs with random changes are refused by an error of ours, or are safe to run, and soon.

500 of them by default; NKI_TEST_EXAMPLES=10000 tries 100,000, and NKI_TEST_SEED=… other ones.
"""

from __future__ import annotations

import os

import pytest

from nki.compilation import pipeline
from nki.ir.text.parser import parse
from nki.target import find
from tests.support.instruction_bench import SEED
from tests.support.mutated_programs import is_inside, seeds, trials

PARTS = 10
COUNT = 10 * int(os.environ.get("NKI_TEST_EXAMPLES", "50"))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return seeds()


def test_the_unchanged_programs_are_accepted(texts: list[str]) -> None:
    for text in texts:
        program = parse(text)
        pipeline.compile(None, {}, find(program.target), start=program)


def test_the_proof_of_bounds_can_fail(texts: list[str]) -> None:
    (program,) = [parse(text) for text in texts[:1]]
    access = program.core.numbered[0].accesses()[0]
    assert is_inside(access)
    access.offset += access.tensor.elements
    assert not is_inside(access)


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_programs(part: int, texts: list[str]) -> None:
    results = [outcome for _, outcome, _ in trials(COUNT // PARTS, f"{SEED}/{part}", texts, runs=0.02)]
    failures = [outcome for outcome in results if outcome.startswith("FAILED")]
    assert not failures, "\n".join(failures)
    assert len(set(results)) > 3
