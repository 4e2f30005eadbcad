"""Properties of the interval of random programs: it holds the latency; what is less certain makes it no narrower."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import neuronxcc.nki.isa as n1
import neuronxcc.nki.language as b1
import nki
import nki.language as nl
from neuronxcc import nki as beta1
from nki.profiling.assumptions import Assumption
from nki.profiling.kernel_profile import Profile
from nki.target import GEN2, GEN3, GEN4, Target
from nki.target.fact_rows import Fact
from tests.profiling.test_random_programs import STEPS, drawn

P, SEEDS, FACTS = 128, 6, 30
"""Random programs of each target, and facts of each that are made less certain."""
TARGETS = pytest.mark.parametrize("target", [GEN2, GEN3, GEN4], ids=str)


def program(target: Target, seed: int) -> Profile:
    """A program of the present dialect: all engines, memories and ways of DMA."""
    random = Random(seed)
    x = nki.ShapeDtype((P, random.choice((128, 256, 512))), random.choice(("float32", "bfloat16")))
    plan = tuple((random.randrange(11), *(random.randrange(60) for _ in range(4))) for _ in range(STEPS))
    return nki.profile(drawn, target=target)(x, plan, target is not GEN2)


@beta1.jit
def older(x, rows, plan):
    """Steps of Beta 1 in a loop, some with the same operands in each iteration, with rows that are repeated."""
    out = b1.ndarray((len(plan), *x.shape), dtype=x.dtype, buffer=b1.shared_hbm)
    for number in range(len(plan)):
        kind, first, second = plan[number]
        tile = b1.load(x[0:P, 0 : x.shape[1]])
        pool = [tile, b1.load(rows[b1.ds(first % 4, 1), 0 : x.shape[1]]).broadcast_to((P, x.shape[1]))]
        pool.append(n1.tensor_tensor(pool[0], pool[1], op=nl.multiply))
        if kind == 0:
            made = n1.tensor_tensor(pool[second % 3], pool[1], op=nl.add)
        elif kind == 1:
            made = n1.activation(op=nl.exp, data=pool[second % 3])
        elif kind == 2:
            made = b1.copy(b1.transpose(pool[second % 3][0:P, 0:P]))
        else:
            made = n1.tensor_scalar(pool[second % 3], nl.multiply, float(first))
        b1.store(out[number, 0:P, 0 : made.shape[1]], made)
    return out


def older_program(target: Target, seed: int) -> Profile:
    random = Random(seed)
    plan = tuple((random.randrange(4), random.randrange(8), random.randrange(3)) for _ in range(12))
    return nki.profile(older, target=target)(*(nki.ShapeDtype((n, P), "float32") for n in (P, 4)), plan)


def less_certain(fact: Fact[Any]) -> Fact[Any]:
    """``fact`` with twice the range, on both sides of its value; a number that has to be positive stays so."""
    assert fact.range is not None
    ends: list[Any] = []
    for end in fact.range:
        wide = fact.value + 2 * (end - fact.value)
        ends.append(type(fact.value)(wide) if wide > 0 else min(end, end / 2))
    return replace(fact, range=(ends[0], ends[1]))


def with_assumptions(profile: Profile, chosen: tuple[Assumption, ...], target: Target | None = None) -> Profile:
    known = profile.timed, profile.fewest, lambda: chosen
    return Profile(profile.program, target or profile.target, *known)


@TARGETS
@pytest.mark.parametrize("make", [program, older_program])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_intervals_hold_the_latency_and_grow_with_each_assumption(target: Target, make: Any, seed: int) -> None:
    profile: Profile = make(target, seed)
    inner = (profile.latency, profile.latency)
    for number in range(len(profile.assumptions) + 1):
        some = with_assumptions(profile, profile.assumptions[:number])
        least, most = some.interval
        assert least <= inner[0] and inner[1] <= most
        inner = least, most
    assert inner == profile.interval
    assert all(each.seconds >= 0 and each.part >= 0 for each in profile.worths if each.assumption.end != "aside")
    facts = with_assumptions(profile, ()).interval
    for end, sign in (("fast", -1), ("slow", 1)):
        added = sum(worth.seconds for worth in profile.worths if worth.assumption.end == end)
        assert profile.interval[end == "slow"] == pytest.approx(facts[end == "slow"] + sign * added)


@TARGETS
@pytest.mark.parametrize("make", [program, older_program])
def test_a_guess_with_twice_the_range_narrows_no_interval(target: Target, make: Any) -> None:
    """A faster resource may make a kernel slower (Graham): the ends of narrower ranges stay in the interval."""
    numbers = {n: f for n, f in target.facts().items() if f.range is not None and type(f.value) in (int, float)}
    random = Random(target.generation)
    for seed in range(2):
        profile: Profile = make(target, seed)
        least, most = profile.interval
        wider = 0
        for name in random.sample(sorted(numbers), FACTS):
            changed = target.with_facts({name: less_certain(numbers[name])})
            one, other = with_assumptions(profile, profile.assumptions, changed).interval
            assert one <= least and most <= other, name
            wider += (one, other) != (least, most)
        assert wider >= 3


@TARGETS
def test_a_target_knows_the_narrower_one(target: Target) -> None:
    name = next(name for name, fact in target.facts().items() if fact.range is not None and type(fact.value) is float)
    fact = target.fact(name)
    wide = target.with_facts({name: less_certain(fact)})
    wider = wide.with_facts({name: less_certain(less_certain(fact))})
    assert target.narrower is None and wide.narrower is target and wider.narrower is wide
    assert [each.fact(name).value for each in wider.bounds(0)][-1] == target.bound(0).fact(name).value
    assert wider.with_facts({name: fact}).narrower is target  # with the range of the first one
    assert target.with_facts({name: replace(fact, value=fact.value * 1.01)}).narrower is None
    assert wide.with_facts({name: replace(fact, range=None)}).narrower is None
