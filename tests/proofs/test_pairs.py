"""The corpus is what it claims to be, and ``nki.prove`` says so: pairs are equal, mutants are different."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from . import choose_mutants, mutants
from .judge import different_questions, equal_questions, judged, prover
from .near_misses import NEAR_MISSES, SHOWN, NearMiss, parted
from .pair import DRAWS, distance, outputs
from .pairs import PAIRS

NIGHTLY = int(os.environ.get("NKI_TEST_EXAMPLES", "50")) >= 500
FAST = [name for name, pair in PAIRS.items() if NIGHTLY or not pair.slow]
MUTANTS = mutants.stored()
SAMPLE = MUTANTS if NIGHTLY else [MUTANTS[n] for n in sorted(np.random.default_rng(37).permutation(len(MUTANTS))[:40])]
needs_prove = pytest.mark.skipif(prover() is None, reason="nki.prove is not there yet")


@pytest.mark.parametrize("name", FAST)
def test_both_sides_agree_on_random_inputs(name: str) -> None:
    pair = PAIRS[name]
    for draw in DRAWS:
        arguments = pair.arguments(*draw)
        one, other = outputs(pair.old, arguments), outputs(pair.new, arguments)
        apart = distance(one, other)
        assert apart <= pair.bound, f"{apart:.1e} apart, relative to the largest"
        told = any(np.ptp(output) > 0 or (output.size == 1 and output.any()) for output in one)
        assert told, "an output that is constant tells nothing"


def test_the_corpus_is_whole() -> None:
    families = Counter(pair.family for pair in PAIRS.values())
    assert len(PAIRS) >= 70
    assert families["numpy"] >= 15 and families["pytorch"] >= 5 and families["jax"] >= 5
    assert len({(id(pair.old), id(pair.new), pair.specs) for pair in PAIRS.values()}) == len(PAIRS)


def test_the_mutants_are_500_of_many_kinds_and_pairs() -> None:
    kinds = Counter(mutant.change.rsplit(" ", 1)[0] for mutant in MUTANTS)
    assert len(MUTANTS) == 500 == len({mutant.name for mutant in MUTANTS})
    assert len(kinds) >= 12 and max(kinds.values()) <= 100
    assert len({mutant.pair for mutant in MUTANTS}) >= 150


def test_the_list_is_what_the_mutator_gives() -> None:
    for mutant in MUTANTS:
        pair = PAIRS[mutant.pair]
        change = mutants.changes(pair, mutant.side).get(mutant.change)
        assert change is not None, f"{mutant.name} is gone: run python -m tests.proofs.choose_mutants"
        now = mutants.described(pair, mutant.side, change)
        assert now == mutant, f"{mutant.name} is another change: run python -m tests.proofs.choose_mutants"


@pytest.mark.parametrize("mutant", SAMPLE, ids=lambda mutant: mutant.name)
def test_a_mutant_computes_something_else(mutant: mutants.Mutant, tmp_path: Path) -> None:
    assert choose_mutants.differs(mutant, tmp_path)


@pytest.mark.parametrize("miss", NEAR_MISSES, ids=lambda miss: miss.pair.name)
def test_a_near_miss_passes_random_tests_and_is_another_function(miss: NearMiss) -> None:
    pair = miss.pair
    for draw in DRAWS:
        arguments = pair.arguments(*draw)
        assert distance(outputs(pair.old, arguments), outputs(pair.new, arguments)) <= pair.bound
    arguments = miss.shown()
    assert [a.shape for a in arguments] == [spec.shape for spec in pair.specs]
    assert parted(outputs(pair.old, arguments), outputs(pair.new, arguments)) > SHOWN


@needs_prove
@pytest.mark.parametrize("miss", NEAR_MISSES, ids=lambda miss: miss.pair.name)
def test_a_near_miss_is_never_proved(miss: NearMiss) -> None:
    verdict = prover()(miss.pair.old, miss.pair.new)(*miss.pair.arguments())
    assert verdict.verdict != "equal" or (miss.assumption and verdict.assumptions)


@needs_prove
def test_pairs_are_proved() -> None:
    count = judged(prover(), equal_questions(FAST))
    assert count.different == []
    assert count.share("equal") >= 0.95, f"{count}: {count.undecided} {count.failed}"


@needs_prove
def test_mutants_are_shown_to_differ(tmp_path: Path) -> None:
    count = judged(prover(), different_questions(SAMPLE, tmp_path))
    assert count.equal == []
    assert count.share("different") >= 0.95, f"{count}: {count.undecided} {count.failed}"
