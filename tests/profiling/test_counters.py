"""Counters as the public profiler counts them: its schema's words, and published examples of the fields.

Schema: Neuron documentation, Profile Parquet Schema Reference, tables Summary and OpcodeSummary: active time is the
time in which at least one instruction runs, and times of instructions are added up.
"""

from __future__ import annotations

from typing import Any

import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.cost.dma_costs import packets
from nki.profiling.engine_rows import EngineRows
from nki.profiling.kernel_profile import Profile
from nki.target import GEN2, GEN3
from tests.isa.spec import tile
from validation.cases import CASES

P = 128


@nki.jit
def chain(x, count=8, dependent=False):
    """Sums of tiles on Vector: of the same ones, or each of the result before."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    column = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=column, value=1.0, engine=nisa.engine.gpsimd)
    made = tile
    for _ in range(count):
        made = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=made, data=tile, op0=nl.add, operand0=column, engine=nisa.engine.vector)
        tile = made if dependent else tile
    nisa.dma_copy(dst=out, src=made)
    return out


def profiled(target: Any = GEN3, **options: Any) -> Profile:
    return nki.profile(chain, target=target)(nki.ShapeDtype((P, 512), "float32"), **options)


def test_an_instruction_lasts_until_its_result_is_there() -> None:
    """A public trace of trn2: tensor_scalar of 512 float32 in SBUF lasts 481 ns, and the next one begins 396 ns on."""
    one = profiled(count=1).summary()
    assert one["vector_engine_instruction_time"] == one["vector_engine_active_time"] == pytest.approx(481e-9, rel=0.02)
    eight = profiled(count=8).summary()
    assert eight["vector_engine_instruction_count"] == 8
    assert eight["vector_engine_instruction_time"] == pytest.approx(8 * 481e-9, rel=0.02)


def test_active_time_counts_overlapping_instructions_once() -> None:
    eight = profiled(count=8).summary()
    assert eight["vector_engine_active_time"] == pytest.approx((7 * 396 + 481) * 1e-9, rel=0.02)
    chained = profiled(count=8, dependent=True).summary()
    assert chained["vector_engine_instruction_time"] == pytest.approx(eight["vector_engine_instruction_time"])
    assert chained["vector_engine_active_time"] > 1.1 * eight["vector_engine_active_time"]


def test_the_time_without_work_is_not_active(product: Profile, loop: Profile) -> None:
    for profile in (product, loop):
        summary = profile.summary()
        longest = max(summary[f"{engine}_engine_active_time"] for engine in ("tensor", "vector", "scalar", "sync"))
        assert longest <= summary["total_active_time"] <= summary["device_time"] + 1e-12


def test_iterations_that_repeat_count_each_overlap_once(loop: Profile) -> None:
    for rows in map(EngineRows, loop.cores):
        for engine in ("vector", "scalar", "gpsimd", "sync"):
            chosen = rows.rows(engine)
            assert rows.joined_ns(chosen) <= rows.instruction_ns(chosen) + 1e-6
            assert rows.joined_ns(chosen) <= rows.events.timeline.end


@pytest.mark.parametrize(("columns", "nanoseconds"), [(128, 35), (512, 89)])
def test_packets_take_as_long_as_in_the_tutorial(columns: int, nanoseconds: float) -> None:
    """519.58 and 402.07 ms of packets of 512 bytes and 2 KiB: 35 and 89 ns each (kernel-optimization tutorial)."""
    src, dst = tile(P, columns, width=4 * columns, buffer="hbm"), tile(P, columns)
    made = packets(dst.make("dst"), src.make("src"), GEN3)
    assert made.number == P and made.ns / P == pytest.approx(nanoseconds, rel=0.05)


def test_packets_by_generator(product: Profile) -> None:
    summary = product.summary()
    kinds = ("static", "software_dynamic", "hardware_dynamic")
    counts = [summary[f"{kind}_dma_packet_count"] for kind in kinds]
    assert sum(counts) == 10 * P, "each row of ten tiles is at most 4 KiB long"
    assert [summary[f"{kind}_dma_packet_percent"] for kind in kinds] == [count / sum(counts) for count in counts]
    assert summary["dynamic_dma_packet_percent"] == 1 - summary["static_dma_packet_percent"]
    assert summary["dma_packet_time"] > summary["dma_transfer_time"], "16 engines move packets side by side"


def test_software_on_trn1_makes_all_packets() -> None:
    summary = profiled(GEN2).summary()
    assert summary["software_dynamic_dma_packet_count"] == 2 * P and summary["static_dma_packet_count"] == 0


def test_a_published_summary() -> None:
    """Counters of "4096^3, blocked, long rows" on trn2 (neuron-agentic-development): Tensor active for 1,781 us, Vector
    for 172, in 2 x 128 x 512 products of 8,192 instructions.
    """
    (case,) = (case for case in CASES if case.name == "4096^3, blocked, long rows, bf16")
    summary = case.profile().summary()
    assert summary["tensor_engine_active_time"] == pytest.approx(1781e-6, rel=0.01)
    assert summary["vector_engine_active_time"] == pytest.approx(172e-6, rel=0.02)
    assert summary["matmul_instruction_count"] == (4096 // 128) ** 2 * (4096 // 512)
    assert summary["model_flops"] == 2 * 4096**3
