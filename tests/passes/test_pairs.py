"""Two cores: every order that waits and meetings allow gives the same bits, unless cores race; that is shown, too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from nki.base.errors import QueueDeadlockError
from nki.isa.instructions.core_barrier import CoreBarrier
from nki.isa.instructions.sendrecv import Sendrecv
from tests.language.test_cores import WANT, A, differences, double, through_memories, to_and_fro
from tests.support.interleaved_run import compiled, happens, in_order, played, waits, without

from . import pairs

KERNELS = (differences, double, through_memories, to_and_fro, pairs.meets)
NAMED = {"ids": lambda kernel: kernel.func.__name__}


@pytest.mark.parametrize("kernel", KERNELS, **NAMED)
def test_every_order_that_waits_and_meetings_allow_gives_the_same_bits(kernel):
    scheduled = compiled(kernel[2], A)
    expected = in_order(scheduled, [A])
    for seed in range(60):
        assert played(scheduled, [A], seed) == expected, f"seed {seed}"


def test_what_two_cores_compute_is_right():
    assert played(compiled(differences[2], A), [A], 0) == [WANT.tobytes()]


@settings(max_examples=25)
@given(pairs.programs)
def test_random_programs_for_two_cores_compute_the_same_in_every_order(plan):
    scheduled = compiled(pairs.program[2], *pairs.INPUTS, plan)
    expected = in_order(compiled(pairs.program[2], *pairs.INPUTS, plan, stop="order"), pairs.INPUTS)
    for seed in range(8):
        assert played(scheduled, pairs.INPUTS, seed) == expected, f"seed {seed}"


@pytest.mark.parametrize("kernel", pairs.RACES, **NAMED)
def test_some_order_shows_a_race_between_cores(kernel, monkeypatch):
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")  # which would refuse most of them
    scheduled = compiled(kernel[2], A)
    assert len({played(scheduled, [A], seed)[0] for seed in range(40)}) > 1


@pytest.mark.parametrize("kernel", [differences, through_memories], **NAMED)
def test_some_order_shows_that_a_wait_is_missing(kernel):
    scheduled = compiled(kernel[2], A)
    expected = in_order(scheduled, [A])
    every = list(waits(scheduled))
    assert every
    for inst, wait in every:
        less = without(scheduled, inst, wait)
        assert any(happens(less, [A], seed) != expected for seed in range(100)), (inst, wait)


@pytest.mark.parametrize(("kernel", "kind"), [(pairs.meets, CoreBarrier), (to_and_fro, Sendrecv)])
def test_a_core_that_nobody_meets_is_a_deadlock(kernel, kind):
    scheduled = compiled(kernel[2], A)
    first, second = scheduled.cores
    alone = [inst.with_schedule(waits=()) for inst in second.instructions() if not isinstance(inst, kind)]
    with pytest.raises(QueueDeadlockError, match="of core 0 waits for another core"):
        played(scheduled.with_cores([first, second.with_body(alone)]), [A], 0)


def test_what_is_sent_is_what_was_there_when_the_core_came():
    """Nothing overtakes an exchange that it depends on, though the exchange takes long."""
    plan = (((), ()), ("exchange", 0, 0, 1)), ((((1, 0, 0, 0, 0),), ((1, 0, 0, 0, 0),)), ("exchange", 1, 0, 2))
    (x,) = pairs.INPUTS
    tiles = x.reshape(2, pairs.TILES, pairs.ROWS, pairs.WIDTH)
    want = tiles.copy()
    want[:, 0] = tiles[:, 0] * 0.5 + 1
    want[:, 1] = tiles[::-1, 0]
    want[:, 2] = want[::-1, 0]
    scheduled = compiled(pairs.program[2], x, plan)
    for seed in range(30):
        assert np.array_equal(np.frombuffer(played(scheduled, [x], seed)[0], np.float32), want.reshape(-1))
