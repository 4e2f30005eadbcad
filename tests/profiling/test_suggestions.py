"""Changes that advice makes in the program: the changed kernel computes the same bits."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import nki
from nki.backend.numpy import executor
from nki.profiling.kernel_profile import Profile
from nki.profiling.suggestions.again import ComputedAgain
from nki.profiling.suggestions.moves import OnOtherEngine
from nki.profiling.suggestions.program_rewrites import ProgramRewrite
from nki.profiling.suggestions.repeats import RepeatedRows
from nki.profiling.suggestions.rounds import TilesOfRounds
from tests.profiling import flawed_repeats
from tests.profiling.flaws import AGAIN, FLAWS, IDLE, ROUNDS, ROWS_BACK, Flaw
from tests.profiling.kernels import shape
from tests.profiling.test_engine_parts import planned

KINDS: dict[str, Any] = {
    AGAIN: ComputedAgain,
    ROUNDS: TilesOfRounds,
    ROWS_BACK: RepeatedRows,
    IDLE: lambda target: OnOtherEngine(target, "vector", "gpsimd"),
}
MADE = [(flaw, case) for flaw in FLAWS if flaw.title in KINDS for case in range(3)]


def programs(profile: Profile, change: ProgramRewrite) -> list[Any]:
    """The program, and all that the change makes of it."""
    made: list[Any] = [profile.timed.program]
    recompiled = profile.recompiled

    def keeping(stage: Any) -> Any:
        timed = recompiled(stage)
        made.extend([] if timed is None else [timed.program])
        return timed

    profile.recompiled = keeping  # type: ignore[method-assign]
    change.timed(profile)
    return made


@pytest.mark.parametrize(
    ("flaw", "case"), MADE, ids=[f"{flaw.title}-{flaw.kernel.__name__}-{case}" for flaw, case in MADE]
)
def test_a_changed_program_computes_the_same_bits(flaw: Flaw, case: int) -> None:
    arguments = flaw.arguments(case)[0]
    target = flaw.targets[-1]
    profile = nki.profile(nki.jit(flaw.kernel), target=target)(*arguments)
    before, *after = programs(profile, KINDS[flaw.title](profile.target))
    assert after
    same_bits(before, after)


def same_bits(before: Any, after: list[Any]) -> None:
    """Run the program before a change, and all that the change makes of it, on the same arrays."""
    random = np.random.default_rng(7)
    arrays = [random.standard_normal(each.shape).astype(each.dtype.dtype) for each in before.inputs]
    with np.errstate(all="ignore"):
        expected, *others = (executor.run(program, arrays) for program in (before, *after))
    for other in others:
        for one, two in zip(expected, other, strict=True):
            assert np.array_equal(np.asarray(one).view(np.uint8), np.asarray(two).view(np.uint8))


@pytest.mark.parametrize("form", ["stored", "tile", "number"])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_rounds_whose_data_differ_compute_nothing_again(form: str, target: str) -> None:
    profile = nki.profile(nki.jit(flawed_repeats.changing), target=target)(shape(128, 512), form)
    assert programs(profile, ComputedAgain(profile.target))[1:] == []


@pytest.mark.parametrize("seed", range(24))
def test_changes_of_random_programs_compute_the_same_bits(seed: int) -> None:
    """Steps in loops up to two deep, on four tiles that all steps use again."""
    profile = nki.profile(planned, target="trn2")(shape(128, 128), steps(Random(seed)))
    kept = Profile.recompiled
    for kind in KINDS.values():
        before, *after = programs(profile, kind(profile.target))
        profile.recompiled = kept.__get__(profile)  # type: ignore[method-assign]
        same_bits(before, after)


def steps(random: Random, depth: int = 0) -> tuple[Any, ...]:
    """Steps as ``planned`` takes them, with loops of few iterations."""
    return tuple(
        (random.randint(1, 3), steps(random, depth + 1))
        if depth < 2 and random.random() < 0.25
        else (random.randrange(6), random.randrange(4), random.randrange(4))
        for _ in range(random.randint(2, 7))
    )
