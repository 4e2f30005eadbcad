"""Verdicts of ``nki.prove`` about pairs, and slips in them, that its identities were not written for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nki

from . import mutants
from .choose_mutants import APART
from .fresh import FRESH
from .judge import judged
from .pair import DRAWS, Array, Pair, Side, distance, outputs

NIGHTLY = int(os.environ.get("NKI_TEST_EXAMPLES", "50")) >= 500
ORDER = [list(FRESH)[n] for n in np.random.default_rng(37).permutation(len(FRESH))]
NAMES = list(FRESH) if NIGHTLY else ORDER[:14]
pytestmark = pytest.mark.filterwarnings("ignore")
SLIPS = 150 if NIGHTLY else 4


@pytest.mark.parametrize("name", NAMES)
def test_both_sides_agree_on_random_inputs(name: str) -> None:
    pair = FRESH[name]
    for draw in DRAWS:
        arguments = pair.arguments(*draw)
        apart = distance(outputs(pair.old, arguments), outputs(pair.new, arguments))
        assert apart <= pair.bound, f"{apart:.1e} apart, relative to the largest"


def test_pairs_are_proved() -> None:
    count = judged(nki.prove, ((name, FRESH[name].old, FRESH[name].new, FRESH[name].arguments()) for name in NAMES))
    assert count.different == [] and count.failed == {}
    assert count.share("equal") >= 0.95, f"{count}: {count.undecided}"


def slips() -> Iterator[tuple[Pair, Side, mutants.Change]]:
    """Changes of kernels and of what they call, in a random order that is the same each time."""
    every = [(pair, side, change) for pair in FRESH.values() for side, _ in pair.kernels()
             for change in mutants.changes_with_parts(pair, side)]  # fmt: skip
    for number in np.random.default_rng(37).permutation(len(every)):
        yield every[number]


def differing(folder: Path) -> Iterator[tuple[str, object, object, list[Array]]]:
    """Slips that compile and compute something else on random inputs, with the side that stays."""
    for pair, side, change in slips():
        right = pair.side("new" if side == "old" else "old")
        try:
            wrong = mutants.loaded(pair, side, change, folder)
            apart = [distance(outputs(right, a), outputs(wrong, a)) for a in (pair.arguments(*draw) for draw in DRAWS)]
        except Exception:  # whatever refuses it: Python, the compiler, the simulator
            continue
        if np.isfinite(apart).all() and max(apart) > max(APART, 10 * pair.bound):
            yield f"{pair.name}: {side}, {change.name} in line {change.line}", right, wrong, pair.arguments()


def test_slips_are_shown_to_differ(tmp_path: Path) -> None:
    questions = differing(tmp_path)
    count = judged(nki.prove, (next(questions) for _ in range(SLIPS)))  # pyright: ignore[reportArgumentType]
    assert count.equal == [] and count.failed == {}
    assert count.share("different") >= 0.95, f"{count}: {count.undecided}"
