"""Assumptions beside the interval: dependences by tensor, with the advice about them; descriptors on trn1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.analysis.tensor_dependences import by_tensor
from nki.profiling import html
from nki.profiling.advice import SLOTS
from nki.profiling.assumptions import BY_TENSOR, Assumption
from nki.profiling.kernel_profile import Profile
from nki.profiling.record import details
from nki.target import GEN2, GEN3

P, WIDTH, ROUNDS = 128, 512, 16


@nki.jit
def ring(x, slots=4, apart=False):
    """The exponential of tiles of ``x`` in ``slots`` slots of one buffer, or ``apart`` in a tensor for each."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if apart:
        own = [nl.ndarray((P, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf) for _ in range(slots)]
    else:
        buffer = nl.ndarray((P, slots * x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        own = [buffer[:, n * x.shape[1] : (n + 1) * x.shape[1]] for n in range(slots)]
    for turn in range(x.shape[0] // P):
        slot = own[turn % slots]
        nisa.dma_copy(dst=slot, src=x[turn * P : turn * P + P, :])
        nisa.activation(dst=slot, op=nl.exp, data=slot)
        nisa.dma_copy(dst=out[turn * P : turn * P + P, :], src=slot)
    return out


def profiled(
    target: Any = GEN3, rounds: int = ROUNDS, kernel: Any = ring, width: int = WIDTH, **options: Any
) -> Profile:
    return nki.profile(kernel, target=target)(nki.ShapeDtype((rounds * P, width), "float32"), **options)


def found(profile: Profile, name: str) -> Assumption:
    assumption = profile.assumption(name)
    assert assumption is not None
    return assumption


def test_slices_of_one_tensor_run_one_after_the_other_with_dependences_by_tensor() -> None:
    profile, one = profiled(), profiled(slots=1)
    serial = found(profile, BY_TENSOR).run(GEN3).ns
    assert serial > 1.5 * profile.timeline.ns
    assert serial == pytest.approx(one.timeline.ns, rel=0.02), "four slots are as slow as one"


def test_a_tensor_for_each_slot_has_no_such_waits() -> None:
    apart = profiled(apart=True)
    assert apart.assumption(BY_TENSOR) is None and profiled(slots=1).assumption(BY_TENSOR) is None
    assert apart.latency == pytest.approx(profiled().latency, rel=0.05)


def test_the_advice_tells_what_a_tensor_for_each_slot_would_save() -> None:
    profile = profiled()
    (advice,) = (each for each in profile.advice if each.title == SLOTS)
    assert profile.advice[-1] is advice and advice.condition == BY_TENSOR and advice.at_most
    serial = found(profile, BY_TENSOR).run(GEN3).ns
    assert advice.seconds == pytest.approx((serial - profile.timeline.ns) * 1e-9)
    assert "slices of 'buffer'" in advice.evidence and "a tensor for each slot" in advice.remedy
    shown = " ".join(str(profile).split())
    assert "less, with dependences by tensor: A tensor for each slot" in shown
    assert "of the latency, and not in the range" in shown
    assert f"with {BY_TENSOR}" in html.render(profile)
    (record,) = (each for each in details(profile)["advice"] if each["title"] == SLOTS)
    assert record["condition"] == BY_TENSOR
    assert all(each.title != SLOTS for each in profiled(apart=True).advice)


@pytest.mark.parametrize("target", [GEN2, GEN3], ids=str)
def test_asides_are_in_no_interval(target: Any) -> None:
    profile = profiled(target)
    within = tuple(each for each in profile.assumptions if each.end != "aside")
    assert len(within) < len(profile.assumptions)
    alone = Profile(profile.program, target, profile.timed, profile.fewest, lambda: within)
    assert alone.interval == profile.interval
    for each in profile.worths:
        if each.assumption.end == "aside":
            now = each.assumption.run(target).ns * 1e-9 + profile.launch_time
            assert profile.latency + each.seconds == pytest.approx(now)


def test_dependences_by_tensor_are_those_of_tensors_on_chip() -> None:
    changed, waiting = by_tensor(profiled().program)
    assert {tensor.name for tensor in waiting} == {"buffer"}
    assert len(list(changed.instructions())) == 3 * ROUNDS


@nki.jit
def copies(x):
    """Copies of ``x`` through SBUF, which leave the origin of descriptors open."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for turn in range(x.shape[0] // P):
        tile = nl.ndarray((P, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[turn * P : turn * P + P, :])
        nisa.dma_copy(dst=out[turn * P : turn * P + P, :], src=tile)
    return out


def test_descriptors_of_trn1_are_three_assumptions() -> None:
    """Small transfers: software makes their descriptors one after the other, and takes most of the time."""
    profile = profiled(GEN2, kernel=copies, width=32)
    times = {way: found(profile, f"{way} descriptors").run(GEN2).ns for way in ("static", "software", "hardware")}
    assert times["software"] == profile.timeline.ns, "the default"
    assert times["static"] < 0.5 * times["software"]
    assert times["static"] < times["hardware"]
    ends = {each.name: each.end for each in profile.assumptions}
    assert [ends[f"{way} descriptors"] for way in times] == ["fast", "aside", "aside"]
    fast = found(profile, "static descriptors").run(GEN2.bound(0)).ns * 1e-9 + GEN2.bound(0).launch_ns * 1e-9
    assert profile.interval[0] == pytest.approx(fast)
    assert all(found(profile, f"{way} descriptors").instructions == 2 * ROUNDS for way in times)
    assert profiled(GEN3, kernel=copies).assumption("static descriptors") is None


def test_the_default_of_a_target_is_a_fact() -> None:
    fact = GEN2.fact("dma_open_descriptors")
    static = GEN2.with_facts({"dma_open_descriptors": replace(fact, value="static")})
    timed = profiled(GEN2, kernel=copies).timed
    ways = [{each.dge for each in timed.run(target).cores[0].estimates} for target in (GEN2, static)]
    assert ways == [{"gpsimd"}, {""}]


@nki.jit
def rows(x, count=P):
    """One load of ``count`` rows and one store of them."""
    out = nl.ndarray((count, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((count, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:count, :], dge_mode=nisa.dge_mode.hwdge)
    nisa.dma_copy(dst=out, src=tile, dge_mode=nisa.dge_mode.hwdge)
    return out


def test_the_trigger_of_one_row_is_open_at_the_fast_end() -> None:
    """Triggers of hardware were measured with 128 rows alone."""
    for count, part in ((1, 0.1), (2, 1.0), (P, 1.0)):
        profile = profiled(GEN3, 1, rows, count=count)
        for target, less in ((GEN3, 1.0), (GEN3.bound(0), part)):
            estimates = profile.timed.run(target).cores[0].estimates
            assert [each.issue for each in estimates] == pytest.approx([less * target.dma_hardware_trigger_ns] * 2)
