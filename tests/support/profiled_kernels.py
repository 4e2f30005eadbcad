"""Kernels for the tests of reports, and their profiles."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from nki.cost.queue_replay import Replay
from nki.profiling.kernel_profile import Profile, of_program, profile
from nki.profiling.shapes import ShapeDtype
from nki.sim.timing import CoreTimeline, Timeline

HOSTILE = '</script><img src=x onerror="window.stolen=1">&amp;\'"<!--'


@nki.jit
def layer(x, w):
    y = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    weight = nl.ndarray((128, 128), dtype=w.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weight, src=w)
    for block in range(x.shape[1] // 512):
        columns = slice(block * 512, block * 512 + 512)
        activations = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=activations, src=x[:, columns])
        product = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=product, stationary=weight, moving=activations)
        squashed = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=squashed, data=product, op=nl.exp if block % 2 else nl.tanh)
        nisa.tensor_scalar(dst=squashed, data=squashed, op0=nl.multiply, operand0=0.5)
        nisa.dma_copy(dst=y[:, columns], src=squashed)
    return y


@nki.jit
def hostile(x):
    bad = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, name=HOSTILE)
    nisa.dma_copy(dst=bad, src=x)
    nisa.tensor_scalar(dst=bad, data=bad, op0=nl.add, operand0=1.0)  # </script><script>window.stolen=1</script>
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=bad)
    return y


@nki.jit
def looped(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    def body(i):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, 1000, body)
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=y, src=tile)
    return y


@nki.jit
def one_works(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    if nl.program_id(0) == 1:
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=y, src=tile)
    return y


@nki.jit
def in_turn(x, early=24, late=0):
    """Core 0 has ``early`` instructions before a barrier and ``late`` behind it, core 1 the other way round."""
    rank = nl.program_id(0)
    middle = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="middle")
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="y")
    own, other = rank * 128, 128 - rank * 128
    tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[own : own + 128])
    for _ in range(late if rank else early):
        nisa.activation(dst=tile, data=tile, op=nl.exp)
    nisa.dma_copy(dst=middle[own : own + 128], src=tile)
    nisa.core_barrier(data=middle, cores=(0, 1))
    nisa.dma_copy(dst=tile, src=middle[other : other + 128])
    for _ in range(early if rank else late):
        nisa.activation(dst=tile, data=tile, op=nl.exp)
    nisa.dma_copy(dst=y[own : own + 128], src=tile)
    return y


def of_layer(blocks: int = 6) -> Profile:
    shapes = ShapeDtype((128, 512 * blocks), "bfloat16"), ShapeDtype((128, 128), "bfloat16")
    return profile(layer, target="trn2")(*shapes)


def of_hostile() -> Profile:
    """A profile with markup in kernel, tensors and source lines."""
    plain = profile(hostile, target="trn2")(ShapeDtype((128, 64), "float32"))
    return of_program(replace(plain.program, name=HOSTILE))


def of_looped() -> Profile:
    return profile(looped, target="trn2")(ShapeDtype((128, 512), "float32"))


def of_one_works() -> Profile:
    """The profile of two cores, where the first has nothing to do."""
    return profile(one_works[2], target="trn2")(ShapeDtype((128, 512), "float32"))


def of_in_turn() -> Profile:
    """The profile of two cores, where core 1 waits for core 0, and is the slower one from there on."""
    return profile(in_turn[2], target="trn2")(ShapeDtype((256, 512), "float32"), 12)


def repeated(base: Profile, times: int) -> Profile:
    """The profile of the instructions of ``base``, which has one core, ``times`` times, one run after the other.

    The compiler would take a minute for a program of 100,000 instructions.
    """
    core = base.timeline.cores[0]
    once, count = core.replay, len(core.numbers)
    replay = Replay(base.target)
    replay.now = once.now * times
    for turn in range(times):
        later, first = once.now * turn, count * turn
        replay.starts += [time + later for time in once.starts]
        replay.releases += [time + later for time in once.releases]
        replay.results += [time + later for time in once.results]
        replay.blockers += [row + first if row >= 0 else first - 1 for row in once.blockers]
        replay.data += [(begin + later, end + later) if end else (0.0, 0.0) for begin, end in once.data]
        replay.resources.tables.loads += [(begin + later, end + later) for begin, end in once.resources.tables.loads]
    replay.causes = once.causes * times
    instructions = len(core.estimates)
    program: Any = SimpleNamespace(rank=0, numbered=core.core.numbered * times, placement=core.core.placement)
    numbers = (np.array(core.numbers)[None] + instructions * np.arange(times)[:, None]).ravel().tolist()
    timeline = CoreTimeline(
        program, core.queues, core.queue_of * times, core.estimates * times, replay, numbers, core.weights * times
    )
    longer = Profile(base.program, base.target, base.timed)
    longer.timeline = Timeline(base.target, [timeline])
    vars(longer).update(interval=(longer.latency, longer.latency), lower_bound=base.lower_bound, advice=[])
    return longer
