"""The arena follows the live ranges of the program: tensors that are live at one point have bytes of their own."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import nki
from nki import isa as nisa
from nki import language as nl
from nki.analysis.liveness import tensor_ranges
from nki.backend.cpu.native.frame import ARENA
from nki.backend.cpu.runtime.storage import Storage
from nki.ir.program import Program
from tests.kernels import test_corpus  # noqa: F401  # enters the kernels into the corpus
from tests.kernels.case import CASES


def storages(program: Program) -> list[Storage]:
    return [Storage(core, program.signature, program.shared()) for core in program.cores]


def interfering(program: Program) -> list[tuple[str, str]]:
    """Pairs of tensors that are live at one point and share bytes of the arena."""
    pairs: list[tuple[str, str]] = []
    for core, storage in zip(program.cores, storages(program), strict=True):
        ranges = [live for live in tensor_ranges(core).values() if storage.bases[live.tensor][0] == ARENA]
        for a, b in combinations(ranges, 2):
            if a.first <= b.last and b.first <= a.last:
                (_, start), (_, other) = storage.bases[a.tensor], storage.bases[b.tensor]
                if start < other + b.tensor.nbytes and other < start + a.tensor.nbytes:
                    pairs.append((a.tensor.name, b.tensor.name))
    return pairs


@pytest.mark.parametrize("name", CASES)
def test_live_tensors_share_no_bytes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not interfering(CASES[name].compile(monkeypatch).kernel)


@nki.jit
def local_to_a_loop(a):
    """Two tiles of a size, one after the other in every iteration; the loop's register lives as long as the loop."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)

    def body(i):
        first = nl.load(a)
        nisa.dma_copy(out, first)
        second = nl.load(a)
        nisa.tensor_scalar(second, second, nl.add, 3.0)
        nisa.dma_copy(out, second)

    nl.fori_loop(0, 4, body)
    return out


def test_loop_local_tensors_share_bytes_unless_they_are_filled_before_the_loop() -> None:
    a = np.arange(128, dtype=np.float32).reshape(2, 64)
    executable = local_to_a_loop.compile(a)
    (core,), signature = executable.kernel.cores, executable.kernel.signature
    assert not interfering(executable.kernel)
    tiles = [t for t in tensor_ranges(core) if t.shape == a.shape and t.name.startswith(("first", "second"))]
    assert len(tiles) == 2
    shared, filled = Storage(core, signature, ()), Storage(core, signature, (), fills=tiles)
    assert shared.bases[tiles[0]] == shared.bases[tiles[1]]
    assert filled.bases[tiles[0]] != filled.bases[tiles[1]]
    assert np.array_equal(local_to_a_loop(a), a + 3)


@nki.jit
def longer_in_each_round(a):
    """The sum of each row's first 64, 128, ... elements, of a tile that is longer in each round."""
    out = nl.ndarray((a.shape[0], a.shape[1] // 64), nl.float32, buffer=nl.shared_hbm)
    for number in range(a.shape[1] // 64):
        tile = nl.ndarray((a.shape[0], 64 * (number + 1)), nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(tile, a[:, : 64 * (number + 1)])
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        total = nl.ndarray((a.shape[0], 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, tile, axis=1)
        nisa.dma_copy(out[:, number : number + 1], total)
    return out


def test_tiles_of_growing_sizes_share_the_memory_of_a_few() -> None:
    a = np.random.default_rng(0).integers(0, 9, (128, 2048)).astype(np.float32)
    executable = longer_in_each_round.compile(a)
    assert not interfering(executable.kernel)
    (storage,) = storages(executable.kernel)
    assert a.nbytes <= storage.arena_bytes < 3 * a.nbytes  # 32 tiles take 16.5 times as much
    assert np.array_equal(longer_in_each_round(a), 2 * a.cumsum(axis=1)[:, 63::64])
