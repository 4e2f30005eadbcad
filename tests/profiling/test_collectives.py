"""Profiles of a kernel with a collective."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.cost.collectives import price
from nki.ir.text import parser, printer
from nki.profiling.kernel_profile import Profile
from nki.profiling.parquet import tables
from nki.profiling.trace import trace
from nki.target import GEN3
from tests.support.decoded_trace import DecodedTrace

RANKS = 64
SHAPE = (128, 2048)
SIZE = 128 * 2048 * 4


@nki.jit
def kernel(x: Any) -> Any:
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, x)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    own = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="own")
    nisa.dma_copy(own, tile)
    total = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="total")
    ncc.all_reduce([own], [total], ncc.ReplicaGroup([list(range(RANKS))]), nl.add)
    for _ in range(4):
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    result = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(result, total)
    nisa.tensor_tensor(result, result, tile, nl.add)
    nisa.tensor_tensor(result, result, tile, nl.add)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, result)
    return out


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What a profile on trn2 says, by name."""
    profile: Profile = nki.profile(kernel, target="trn2")(np.ones(SHAPE, np.float32))
    core = profile.cores[0]
    spans: dict[str, list[tuple[float, float]]] = {queue: [] for queue in core.queues}
    for row, number in enumerate(core.queue.tolist()):
        spans[core.queues[number]].append((core.start[row], max(core.end[row], core.data_end[row])))
    return {
        "interval": profile.interval,
        "fast": profile.what_if(collective_bandwidth=4.0, collective_latency=0.5).latency,
        "latency": profile.latency,
        "uses": {use.engine: [use.busy, use.stalls] for use in profile.engines},
        "spans": spans,
        "text": str(profile),
        "same": parser.parse(printer.show(profile.program)) == profile.program,
        "page": "collectives" in profile._repr_html_(),
        "rows": list(tables(profile)["DmaPacketAggregated"]["queue_name"]),
        "engines": list(tables(profile)["Instruction"]["engine"]),
        "tracks": sorted({each.name for each in DecodedTrace(trace(profile)).slices}),
        "bound": profile.lower_bound.seconds,
    }


def test_collectives_have_a_row_of_their_own(seen: dict[str, Any]) -> None:
    busy, stalls = seen["uses"]["collectives"]
    estimate = price("all_reduce", SIZE, 64, GEN3)
    assert busy == pytest.approx(estimate.issue + estimate.transfer) and not stalls
    (row,) = [line for line in seen["text"].splitlines() if line.startswith("  collectives")]
    assert "█" in row
    assert "Collectives" in seen["engines"] and "collectives" in seen["rows"] and seen["page"]
    assert "all_reduce" in seen["tracks"]


def test_engines_compute_meanwhile_and_what_reads_the_result_waits(seen: dict[str, Any]) -> None:
    ((begin, end),) = seen["spans"]["collectives"]
    vector = seen["spans"]["vector"]
    assert any(begin < start < end for start, _ in vector), "what needs no result goes on"
    assert vector[-1][0] > end
    _, stalls = seen["uses"]["dma"]
    assert 0.8 * (end - begin) < stalls["waits for collectives"] <= end - begin, "the load of the result waits"
    (row,) = [line for line in seen["text"].splitlines() if line.startswith("  dma ")]
    assert "collectives" in row


def test_the_interval_is_as_wide_as_the_facts(seen: dict[str, Any]) -> None:
    fast, slow = seen["interval"]
    assert fast < seen["fast"] < seen["latency"] < slow
    estimates = [price("all_reduce", SIZE, 64, target).latency * 1e-9 for target in (GEN3.bound(0), GEN3.bound(1))]
    assert slow - fast > estimates[1] - estimates[0] > seen["latency"]
    assert seen["bound"] <= seen["latency"]


def test_its_text_is_its_program(seen: dict[str, Any]) -> None:
    assert seen["same"]


def test_kernels_run_it() -> None:
    with nki.ranks(RANKS):
        outs = kernel(np.ones(SHAPE, np.float32))
    assert [float(out[0, 0]) for out in outs] == [2.0 * RANKS + 2 * 2.0 * 16] * RANKS
