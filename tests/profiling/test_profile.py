"""Profiles: measures that can be counted by hand, what-ifs, advice, and arguments without data."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import UnknownTargetError
from nki.base.profile_errors import WhatIfError
from nki.profiling import measures
from nki.profiling.profile import Profile
from nki.profiling.shapes import is_shape_only
from nki.target import GEN2, GEN3
from validation import matmul


def profiled(kernel: Any, *arguments: Any, target: str = "trn2") -> Profile:
    return nki.profile(kernel, target=target)(*arguments)


def shape(*sizes: int, dtype: str = "bfloat16") -> Any:
    return nki.ShapeDtype(sizes, dtype)


TILED = profiled(matmul.tiled, shape(512, 256), shape(512, 1024))
"""K = 512, M = 256, N = 1024: 2 x 2 x 4 products, two loads each, and four stores."""


def test_operations_and_bytes_are_counted_exactly() -> None:
    assert TILED.flops == 2 * 512 * 256 * 1024 and TILED.transpose_flops == 0
    products = 2 * 2 * 4
    assert TILED.instructions == products * 3 + 4 * 2
    loaded = products * (128 * 128 + 128 * 512) * 2
    assert TILED.bytes["hbm_read"] == loaded and TILED.bytes["hbm_write"] == 256 * 1024 * 2
    assert TILED.bytes["psum_write"] == products * 128 * 512 * 4
    assert TILED.intensity == pytest.approx(TILED.flops / (loaded + 256 * 1024 * 2))
    sizes = {row.up_to: (row.count, row.bytes) for row in TILED.transfers}
    assert sizes == {65536: (16, 16 * 32768), 262144: (20, 20 * 131072)}


def test_peaks_are_those_of_the_target() -> None:
    assert TILED.peak_flops == pytest.approx(2 * 128 * 128 * 2.4e9)
    assert TILED.peak_bandwidth == pytest.approx(16 * 23e9)
    assert TILED.ridge == pytest.approx(TILED.peak_flops / TILED.peak_bandwidth)
    assert TILED.mfu == pytest.approx(TILED.flops / TILED.peak_flops / TILED.device_time)
    assert TILED.mbu == pytest.approx(TILED.hbm_bytes / TILED.peak_bandwidth / TILED.device_time)


def test_each_engine_adds_up_to_the_device_time() -> None:
    for use in TILED.engines:
        assert use.busy + use.idle + sum(use.stalls.values()) == pytest.approx(TILED.timeline.ns)
        assert min(use.busy, use.idle, use.throttled) >= 0
    tensor = next(use for use in TILED.engines if use.engine == "tensor")
    assert tensor.instructions == 16 and set(tensor.stalls) <= {"waits for dma", "waits for vector", "waits for scalar"}


def test_the_critical_path_covers_the_run_without_gaps() -> None:
    path = TILED.critical_path
    assert path[0].begin == 0 and path[-1].end == TILED.timeline.ns
    assert all(one.end == pytest.approx(two.begin) for one, two in pairwise(path))
    assert sum(cost.critical for cost in TILED.lines.values()) == pytest.approx(TILED.timeline.ns)
    assert sum(cost.critical for cost in TILED.by_instruction.values()) == pytest.approx(TILED.timeline.ns)


def test_costs_by_line_and_instruction_count_every_execution() -> None:
    assert TILED.by_instruction["nc_matmul"].executions == 16
    assert sum(cost.executions for cost in TILED.lines.values()) == TILED.instructions
    assert TILED.by_instruction["dma_copy"].hbm_bytes == TILED.hbm_bytes
    assert all(span is not None and span.file.endswith("matmul.py") for span in TILED.lines)


def test_memory_in_use_returns_to_nothing() -> None:
    for use in TILED.memory:
        assert use.used[-1] == 0 and list(use.times) == sorted(use.times)
    assert 0 < TILED.peak_memory["sbuf"] <= GEN3.sbuf_usable_partition_bytes
    assert TILED.peak_memory["psum"] in (2048, 4096, 6144, 8192)


def test_length_of_a_union_of_intervals() -> None:
    begins, ends = np.array([5.0, 0.0, 1.0, 20.0]), np.array([7.0, 2.0, 6.0, 21.0])
    assert measures.covered(begins, ends) == 8.0
    assert measures.covered(begins[:0], ends[:0]) == 0.0


@pytest.mark.parametrize(
    ("changes", "better"),
    [
        ({"dma_issue": 0.5}, True),
        ({"dma_bandwidth": 0.25}, False),
        ({"dma_latency": 0.0}, True),
        ({"tensor_clock": 0.1}, False),
        ({"launch": 0.5}, True),
        ({"semaphore_ns": 0.0}, True),
        ({"tensor_throttle_fraction": 1.0, "dma_issue": 0.01}, True),
    ],
)
def test_what_if(changes: dict[str, float], better: bool) -> None:
    other = TILED.what_if(**changes)
    assert (other.latency < TILED.latency) is better and other.latency != TILED.latency
    assert TILED.compare(other).speedup == pytest.approx(TILED.latency / other.latency)
    assert TILED.target is GEN3 and GEN3.dma_trigger_ns == 565.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dma_bandwith": 2.0}, "did you mean dma_bandwidth"),
        ({"partitions_": 2}, "factors: dma_bandwidth"),
        ({"tensor_clock": 0}, "no positive number"),
        ({"tensor_clock": -1.0}, "no positive number"),
        ({"tensor_clock": float("nan")}, "no positive number"),
        ({"semaphore_ns": "fast"}, "no time or factor"),
        ({"matmul_dtypes": 3}, "there is no such number"),
    ],
)
def test_what_ifs_that_mean_nothing(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(WhatIfError, match=words):
        TILED.what_if(**changes)


def test_an_unknown_target_is_an_error() -> None:
    with pytest.raises(UnknownTargetError):
        nki.profile(matmul.tiled, target="trn9")(shape(128, 128), shape(128, 512))


def test_shapes_and_arrays_give_the_same_profile() -> None:
    arrays = [np.zeros(sizes, nl.bfloat16.dtype) for sizes in ((512, 256), (512, 1024))]
    assert profiled(matmul.tiled, *arrays).latency == TILED.latency
    structs = [
        SimpleNamespace(shape=(512, 256), dtype="bfloat16"),
        SimpleNamespace(shape=(512, 1024), dtype="bfloat16"),
    ]
    assert all(map(is_shape_only, structs)) and not any(map(is_shape_only, [*arrays, 3, "x", None, arrays[0][0, 0]]))
    assert profiled(matmul.tiled, *structs).latency == TILED.latency


def test_tensors_of_other_frameworks_without_data() -> None:
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    meta = [torch.empty(s, dtype=torch.bfloat16, device="meta") for s in ((512, 256), (512, 1024))]
    assert profiled(matmul.tiled, *meta).latency == TILED.latency
    structs = [jax.ShapeDtypeStruct(s, "bfloat16") for s in ((512, 256), (512, 1024))]
    assert profiled(matmul.tiled, *structs).latency == TILED.latency


def titles(profile: Profile) -> list[str]:
    advice = profile.advice
    worth = [each.seconds for each in advice if each.title != "Engines work one after the other"]
    assert worth == sorted(worth, reverse=True)
    assert all(each.seconds > 0 and each.evidence and each.remedy for each in advice)
    return [each.title for each in advice]


def test_advice_for_a_product_that_loads_again() -> None:
    found = titles(profiled(matmul.tiled, shape(1024, 1024), shape(1024, 1024)))
    assert found[:2] == ["Inputs loaded again", "Short rows in DMA transfers"]
    again = next(a for a in profiled(matmul.tiled, shape(1024, 1024), shape(1024, 1024)).advice if "again" in a.title)
    assert "'lhsT', 'rhs'" in again.evidence and again.lines[0].file.endswith("matmul.py")


def test_advice_about_float32_products() -> None:
    wide = profiled(matmul.blocked_with_long_rows, *[shape(1024, 1024, dtype="float32")] * 2)
    assert titles(wide)[0] == "Products of float32"
    narrow = profiled(matmul.blocked_with_long_rows, *[shape(1024, 1024)] * 2)
    assert "Products of float32" not in titles(narrow)
    # The worth is about that of the change itself.
    assert wide.latency - narrow.latency == pytest.approx(wide.advice[0].seconds, rel=0.35)


@nki.jit
def swapping(x):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(8):
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
    nisa.dma_copy(dst=result, src=tile)
    return result


@nki.jit
def turning(x):
    result = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    wide = nl.ndarray((128, 16384), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=wide, src=x)
    turned = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
    for column in range(0, 16384, 128):
        nisa.nc_transpose(dst=turned, data=wide[:, column : column + 128], engine=nisa.engine.tensor)
    tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=turned, engine=nisa.engine.vector)
    nisa.dma_copy(dst=result, src=tile)
    return result


@nki.jit
def narrow(x):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(4):
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    nisa.dma_copy(dst=result, src=tile)
    return result


def test_advice_names_each_pattern() -> None:
    assert "Swaps of activation tables" in titles(profiled(swapping, shape(128, 512)))
    assert "Transposes on the Tensor engine" in titles(profiled(turning, shape(128, 16384)))
    few = titles(profiled(narrow, shape(4, 16384)))
    assert few[0] == "Vector and Scalar instructions on few partitions" and "Transfers of few partitions" in few
    assert "Vector and Scalar instructions on few partitions" not in titles(profiled(narrow, shape(128, 512)))


def test_advice_about_the_clock_vanishes_where_there_is_none() -> None:
    arguments = [shape(1024, 1024)] * 2
    throttled = "The Tensor engine runs at a throttled clock"
    assert throttled in titles(profiled(matmul.blocked_with_long_rows, *arguments))
    assert throttled not in titles(profiled(matmul.blocked_with_long_rows, *arguments, target="trn1"))
    assert GEN2.tensor_throttle_fraction == 1.0
