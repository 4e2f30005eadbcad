"""``summary-json``: names, units, and numbers that the kernel's shapes give without the model."""

from __future__ import annotations

import json

import pytest

from nki.profiling.summary import SOURCE
from nki.target import GEN2, GEN3, GEN4
from tests.profiling import kernels

READ = [
    "total_time",
    "mfu_estimated_percent",
    "mbu_estimated_percent",
    "hfu_estimated_percent",
    "hardware_flops",
    "transpose_flops",
    "hbm_read_bytes",
    "hbm_write_bytes",
    "sbuf_read_bytes",
    "sbuf_write_bytes",
    "psum_read_bytes",
    "psum_write_bytes",
    "peak_flops_bandwidth_ratio",
    "mm_arithmetic_intensity",
    "matmul_instruction_count",
    "neuroncore_cycle_count",
    "event_count",
    "trace_count",
]
"""Fields that public harnesses read, of those that the model has a number for."""


def test_fields_that_harnesses_read(product):
    summary = product.summary()
    assert set(READ) <= summary.keys()
    for engine in ("tensor", "vector", "scalar", "gpsimd", "sync"):
        for field in ("active_time", "active_time_percent", "instruction_time", "instruction_count"):
            assert f"{engine}_engine_{field}" in summary
    assert summary["source"] == SOURCE == "open-nki model"
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_shares_are_fractions_and_times_are_seconds(product, loop, halves):
    for profile in (product, loop, halves):
        summary = profile.summary()
        for name, value in summary.items():
            if name.endswith("_percent"):
                assert 0 <= value <= 1, name
            elif name.endswith("_time"):
                assert 0 <= value < 1e-2, name
        assert summary["device_time"] == profile.device_time
        assert summary["latency"] == pytest.approx(summary["device_time"] + summary["launch_time"])
        assert summary["total_time"] == pytest.approx(summary["device_time"] + summary["capture_time"])
        assert summary["total_time_min"] <= summary["total_time"] <= summary["total_time_max"]
        assert summary["latency_min"] <= summary["latency"] <= summary["latency_max"]


@pytest.mark.parametrize("target", [GEN2, GEN3, GEN4])
def test_a_capture_has_a_start_and_an_end(target):
    """15.6 us of trn2 are what its traces show; other targets have a wider range of the same number."""
    fact = target.fact("capture_ns")
    assert fact.value == 15600 and fact.kind == ("measured" if target is GEN3 else "guess")
    assert fact.range[0] <= 13000 and fact.range[1] >= 35000
    profile = kernels.profiled_product(target=target)
    assert profile.total_time == pytest.approx(profile.device_time + 15.6e-6)
    least, most = profile.total_interval
    (fast, slow), latencies = (fact.range, profile.interval)
    bounds = [target.bound(end).launch_ns for end in (0, 1)]
    assert least == pytest.approx(latencies[0] + (fast - bounds[0]) * 1e-9)
    assert most == pytest.approx(latencies[1] + (slow - bounds[1]) * 1e-9)
    assert profile.device_interval == pytest.approx([e - b * 1e-9 for e, b in zip(latencies, bounds, strict=True)])
    without = profile.what_if(capture=0)
    assert without.total_time == profile.device_time and without.interval == profile.interval


def test_numbers_of_a_product(product):
    """256 x 256 by 256 x 512 in bfloat16: 4 tiles, each transposed once and multiplied once."""
    summary = product.summary()
    useful, moves = 2 * 256 * 256 * 512, 4 * 2 * 128**3
    assert summary["model_flops"] == useful
    assert summary["transpose_flops"] == summary["adjusted_transpose_flops"] == moves
    assert summary["hardware_flops"] == summary["adjusted_hardware_flops"] == useful + moves
    assert summary["matmul_instruction_count"] == 8
    read, written = 256 * 256 * 2 + 2 * 256 * 512 * 2, 256 * 512 * 2  # rhs is loaded for each of two rows of tiles
    assert (summary["hbm_read_bytes"], summary["hbm_write_bytes"]) == (read, written)
    assert summary["mm_arithmetic_intensity"] == pytest.approx(useful / (read + written))
    peak = 128 * 128 * 2 * 2.4e9
    assert summary["mfu_estimated_percent"] == pytest.approx(useful / (peak * summary["total_time"]))
    assert summary["hfu_estimated_percent"] == pytest.approx((useful + moves) / (peak * summary["total_time"]))
    assert summary["dma_transfer_count"] == 10
    assert summary["dma_transfer_total_bytes"] == read + written
    assert summary["inputs_outputs_weights_size_bytes"] == 256 * 256 * 2 + 256 * 512 * 4
    assert summary["activate_instruction_count"] == 2


def test_float32_counts_its_passes():
    summary = kernels.profiled_product(dtype="float32").summary()
    assert summary["model_flops"] == 2 * 256 * 256 * 512
    # Four passes of a product; a transpose moves float32 unchanged, in two.
    assert summary["adjusted_hardware_flops"] == 4 * summary["model_flops"] + 2 * summary["transpose_flops"]
    assert summary["adjusted_transpose_flops"] == 2 * summary["transpose_flops"]


def test_iterations_that_a_loop_repeats_count(loop):
    summary = loop.summary()
    assert summary["hbm_read_bytes"] == 200 * 64 * 4 + 4
    assert summary["dma_transfer_count"] == 200 + 2
    assert summary["event_count"] < summary["dma_transfer_count"]  # of 200 iterations only some are replayed


def test_transfers_by_generator_add_up(product, halves):
    for profile in (product, halves):
        summary = profile.summary()
        kinds = ("static", "software_dynamic", "hardware_dynamic")
        assert sum(summary[f"{kind}_dma_size"] for kind in kinds) == summary["dma_transfer_total_bytes"]
        assert sum(summary[f"{kind}_dma_size_percent"] for kind in kinds) == pytest.approx(1)
        assert summary["dynamic_dma_size_percent"] == pytest.approx(1 - summary["static_dma_size_percent"])
        assert summary["dynamic_dma_active_time_percent"] <= summary["dma_active_time_percent"] + 1e-9
        assert "dynamic_dma_size" not in summary, "the schema has no such field"


def test_traces_are_instructions_transfers_and_updates_of_semaphores(product):
    summary, rows = product.summary(), sum(map(len, product.cores))
    assert summary["event_count"] == rows
    assert summary["trace_count"] == 2 * rows + summary["dma_transfer_count"]


def test_what_the_model_has_no_number_for_is_left_out(product):
    assert not [name for name in product.summary() if name.startswith(("cc_", "mfu_hlo", "throttle"))]
