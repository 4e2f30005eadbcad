"""Random numbers across instructions: what is repeatable, what differs, and where the state goes."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import ArgumentError
from nki.compilation import pipeline
from nki.frontend.capture import capture
from nki.frontend.specialise import specialise
from nki.frontend.syntax_rules import check
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.ir.types import TensorSpec
from nki.target import GEN2, GEN3, GEN4
from tests.support import instruction_bench
from tests.support.kernel_parts import returned

from .oracle import xorwow
from .oracle.set_rng_seed import finalise

ENGINES = pytest.mark.parametrize("engine", [nisa.engine.vector, nisa.engine.gpsimd])


def started(engine: nisa.engine, lanes: int) -> np.ndarray:
    """The state before anything set it: what the seed 0 gives, GpSimd's words counted on behind the Vector engine's."""
    words, first = (24, 1) if engine is nisa.engine.vector else (6, 1 + 128 * 24)
    numbers = [finalise(n * 0x9E3779B9 % 2**32) for n in range(first, first + lanes * words)]
    return np.array(numbers, np.uint32).reshape(lanes, words)


@nki.jit
def two_tiles(shape, engine):
    out = nl.ndarray((2, *shape), dtype=nl.uint32, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.ndarray(shape, dtype=nl.uint32)
        nisa.rng(dst=tile, engine=engine)
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@ENGINES
def test_a_kernel_without_a_seed_is_repeatable(engine: nisa.engine) -> None:
    got = two_tiles((5, 6), engine)
    first, after = xorwow.draw(started(engine, 5), 6)
    second, _ = xorwow.draw(after, 6)
    np.testing.assert_array_equal(got, np.stack([first, second]))
    np.testing.assert_array_equal(two_tiles((5, 6), engine), got)
    np.testing.assert_array_equal(nki.simulate(two_tiles)((5, 6), engine), got)


@ENGINES
def test_numbers_are_spread_evenly(engine: nisa.engine) -> None:
    """Over bits and over values, in each lane and across lanes: always the same numbers, so that luck plays no part."""
    bits = two_tiles((128, 1024), engine)
    assert len(np.unique(bits[:, :, :512])) > 0.99995 * bits[:, :, :512].size
    for bit in range(32):
        ones = (bits >> np.uint32(bit)) & np.uint32(1)
        assert abs(ones.mean() - 0.5) < 0.004
        assert np.abs(ones.mean(axis=(0, 2)) - 0.5).max() < 0.06
        assert np.abs(ones.mean(axis=1) - 0.5).max() < 0.25
    counts = np.bincount((bits >> np.uint32(24)).ravel(), minlength=256)
    expected = bits.size / 256
    assert ((counts - expected) ** 2 / expected).sum() < 330  # 255 degrees of freedom: one in a thousand is above


@nki.jit
def seeded(seeds, width):
    """What the Vector engine makes after each seed, the last one twice."""
    count = seeds.shape[0]
    out = nl.ndarray((count + 1, 128, width), dtype=nl.uint32, buffer=nl.shared_hbm)
    for i in range(count + 1):
        if i < count:
            seed = nl.ndarray((1, 1), dtype=nl.uint32)
            nisa.dma_copy(dst=seed, src=seeds[i : i + 1])
            nisa.set_rng_seed(seed)
        tile = nl.ndarray((128, width), dtype=nl.uint32)
        nisa.rng(tile)
        nisa.dma_copy(dst=out[i], src=tile)
    return out


@pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["native", "simulated"])
def test_the_same_seed_gives_the_same_numbers(run) -> None:
    got = run(seeded)(np.array([[7], [0], [8], [7]], np.uint32), 9)
    np.testing.assert_array_equal(got[0], got[3])
    np.testing.assert_array_equal(got[1], two_tiles((128, 9), nisa.engine.vector)[0])  # kernels start with seed 0
    for one, two in ((0, 1), (0, 2), (1, 2), (3, 4)):
        assert (got[one] == got[two]).mean() < 0.01


@nki.jit
def saved(seeds, engine, words):
    """Numbers from a state, the state in between, other numbers, and those from the saved state."""
    out = nl.ndarray((3, 128, 10), dtype=nl.uint32, buffer=nl.shared_hbm)
    between = nl.ndarray((128, words), dtype=nl.uint32, buffer=nl.shared_hbm)
    state = nl.ndarray((128, words), dtype=nl.uint32)
    nisa.dma_copy(dst=state, src=seeds)
    nisa.rand_set_state(state, engine=engine)
    for i in range(3):
        tile = nl.ndarray((128, 10), dtype=nl.uint32)
        nisa.rng(tile, engine=engine)
        nisa.dma_copy(dst=out[i], src=tile)
        if i == 0:
            nisa.rand_get_state(state, engine=engine)
            nisa.dma_copy(dst=between, src=state)
        else:
            nisa.rand_set_state(state, engine=engine)
    return out, between


@ENGINES
def test_a_state_is_saved_and_restored(engine: nisa.engine) -> None:
    words = 24 if engine is nisa.engine.vector else 6
    seeds = np.random.default_rng(1).integers(0, 2**32, (128, words), np.uint32)
    numbers, between = saved(seeds, engine, words)
    first, state = xorwow.draw(seeds, 10)
    np.testing.assert_array_equal(numbers[0], first)
    np.testing.assert_array_equal(between, state)
    np.testing.assert_array_equal(numbers[1], numbers[2])
    for one, two in zip(nki.simulate(saved)(seeds, engine, words), (numbers, between), strict=True):
        np.testing.assert_array_equal(one, two)


@nki.jit
def lanes(first):
    """Numbers for 32 partitions of a tile, then for all of it."""
    tile = nl.ndarray((128, 8), dtype=nl.uint32)
    nisa.rng(tile[first : first + 32, :])
    nisa.rng(tile)
    return returned(tile)


def test_a_tile_uses_the_lanes_of_its_partitions() -> None:
    got = lanes(64)
    state = started(nisa.engine.vector, 128)
    state[64:96] = xorwow.draw(state[64:96], 8)[1]
    np.testing.assert_array_equal(got, xorwow.draw(state, 8)[0])
    np.testing.assert_array_equal(nki.simulate(lanes)(64), got)


@nki.jit
def looped(rounds):
    """Numbers drawn in a loop on the device, and once more behind it."""
    out = nl.ndarray((4, 128, 4), dtype=nl.uint32, buffer=nl.shared_hbm)
    zeros = nl.ndarray((128, 4), dtype=nl.uint32)
    nisa.memset(zeros, 0)
    for i in range(4):
        nisa.dma_copy(dst=out[i], src=zeros)
    count = nl.ndarray((1, 1), dtype=nl.int32)
    nisa.dma_copy(dst=count, src=rounds)
    register = nisa.register_alloc(count)

    def body(i):
        tile = nl.ndarray((128, 4), dtype=nl.uint32)
        nisa.rng(tile)
        nisa.dma_copy(dst=out[i], src=tile)

    nl.fori_loop(0, register, body)
    tile = nl.ndarray((128, 4), dtype=nl.uint32)
    nisa.rng(tile)
    nisa.dma_copy(dst=out[3], src=tile)
    return out


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_state_lasts_through_loops(rounds: int) -> None:
    given = np.array([[rounds]], np.int32)
    got = looped(given)
    numbers, _ = xorwow.draw(started(nisa.engine.vector, 128), 4 * (rounds + 1))
    np.testing.assert_array_equal(got[[*range(rounds), 3]], numbers.reshape(128, -1, 4).swapaxes(0, 1))
    np.testing.assert_array_equal(nki.simulate(looped)(given), got)


@nki.jit
def everything(data):
    """Dropout, uniform numbers and bits, one after the other from the same generators."""
    out = nl.ndarray((3, *data.shape), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(data.shape, dtype=nl.float32)
    nisa.dma_copy(dst=tile, src=data)
    nisa.dropout(dst=tile, data=tile, prob=0.25)
    nisa.dma_copy(dst=out[0], src=tile)
    nisa.rand2(dst=tile, min=-3.0, max=5.0)
    nisa.dma_copy(dst=out[1], src=tile)
    bits = nl.ndarray(data.shape, dtype=nl.uint8)
    nisa.rng(bits)
    nisa.tensor_copy(tile, bits)
    nisa.dma_copy(dst=out[2], src=tile)
    return out


def test_dropout_and_uniform_numbers_have_the_right_share() -> None:
    data = np.full((128, 512), 3.0, np.float32)
    dropped, uniform, bits = everything(data)
    np.testing.assert_array_equal(nki.simulate(everything)(data), np.stack([dropped, uniform, bits]))
    assert set(np.unique(dropped)) == {0.0, 3.0}  # what stays is not scaled
    assert abs((dropped == 0).mean() - 0.25) < 0.005
    assert uniform.min() >= -3 and uniform.max() <= 5
    assert abs(uniform.mean() - 1) < 0.02 and abs(uniform.std() - 8 / 12**0.5) < 0.02
    assert abs(bits.mean() - 127.5) < 1


def recorded(fn, target=GEN4, **arguments):
    return pipeline.compile(None, {}, target, start=specialise(check(capture(fn.func)), arguments, target))


def test_text_shows_the_generators_and_they_are_checked() -> None:
    kernel = recorded(everything, data=TensorSpec("data", (128, 8), nl.float32))
    text = show(kernel)
    assert text.count("states=vector.random[0 | 24x128, 1x24]") == 3
    assert "tensor vector.random : register uint32[128,24]" in text
    assert parse(text) == kernel
    data = np.ones((128, 8), np.float32)
    for run in (instruction_bench.run_native, instruction_bench.run_reference):
        np.testing.assert_array_equal(run(parse(text), [data])[0], everything(data))
    for wrong in (" states=vector.random[0 | 24x128, 1x24]", "states=vector.random[0 | 24x128, 1x24]"):
        broken = text.replace(wrong, "" if wrong[0] == " " else "states=vector.random[0 | 24x64, 1x24]")
        with pytest.raises(ArgumentError, match="not the generators"):
            pipeline.compile(None, {}, GEN4, start=parse(broken))


def test_registers_of_another_size_are_no_generators() -> None:
    kernel = recorded(everything, data=TensorSpec("data", (128, 8), nl.float32))
    odd = show(kernel).replace("uint32[128,24]", "uint32[125,5]").replace("24x128, 1x24", "5x125, 1x5")
    with pytest.raises(ArgumentError, match="not the generators"):
        pipeline.compile(None, {}, GEN4, start=parse(odd))


@pytest.mark.parametrize("target", [GEN2, GEN3], ids=lambda t: t.name)
def test_older_generations_have_the_same_numbers(target) -> None:
    shape = (4, 3)
    kernel = recorded(two_tiles, target, shape=shape, engine=nisa.engine.vector)
    np.testing.assert_array_equal(instruction_bench.run_native(kernel, [])[0], two_tiles(shape, nisa.engine.vector))
