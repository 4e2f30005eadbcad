"""Profiles: measures that can be counted by hand, what-ifs, and arguments without data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import GridError, KernelArgumentError, NkiError, UnknownDTypeError, UnknownTargetError
from nki.base.profile_errors import ProfileFileError, TripCountError, WhatIfError
from nki.frontend.frontend_errors import NotAFunctionError
from nki.ir.loop import loops
from nki.profiling import metrics
from nki.profiling.shapes import is_shape_only
from nki.sim.timing import deciding_inputs
from nki.target import GEN3
from tests.profiling import kernels
from tests.profiling.kernels import profiled, shape
from validation import matmul

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
    assert TILED.peak_bandwidth == pytest.approx(16 * 23.5e9)
    assert TILED.ridge == pytest.approx(TILED.peak_flops / TILED.peak_bandwidth)
    assert TILED.mfu == pytest.approx(TILED.flops / TILED.peak_flops / TILED.device_time)
    seconds = TILED.bytes["hbm_read"] / (16 * 23.5e9) + TILED.bytes["hbm_write"] / (16 * 26.8e9)
    assert TILED.mbu == pytest.approx(seconds / TILED.device_time)


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


def test_iterations_that_were_not_replayed_cost_what_the_replayed_one_does() -> None:
    few, many = kernels.profiled_sum(20), kernels.profiled_sum(200)
    assert sum(int(core.weight.max()) for core in many.cores) > 100, "most iterations were not replayed"
    for profile in (few, many):
        assert sum(step.ns for step in profile.critical_path) == pytest.approx(profile.timeline.ns)
        assert all(step.ns >= 0 for step in profile.critical_path)
    for name in ("dma_copy", "tensor_tensor"):
        shares = [profile.by_instruction[name].critical / profile.timeline.ns for profile in (few, many)]
        assert shares[0] == pytest.approx(shares[1], abs=0.02), name
    each = {name: cost.critical / 200 for name, cost in many.by_instruction.items()}
    assert each["dma_copy"] > 4 * each["tensor_tensor"], "each iteration waits for its row"


def test_a_loop_that_ends_the_kernel_counts_with_all_its_iterations() -> None:
    profile = kernels.profiled_rows()
    assert max(int(core.weight.max()) for core in profile.cores) > 100, "most iterations were not replayed"
    assert sum(step.ns for step in profile.critical_path) == pytest.approx(profile.timeline.ns, rel=1e-3)
    assert sum(cost.critical for cost in profile.lines.values()) == pytest.approx(profile.timeline.ns, rel=1e-3)
    (row,) = (use for use in profile.memory if use.memory == "sbuf")
    assert row.used[-2:] == (64 * 4, 0) and row.times[-1] == profile.timeline.ns, (
        "the tile is in use until the loop ends"
    )


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
    assert metrics.covered(begins, ends) == 8.0
    assert metrics.covered(begins[:0], ends[:0]) == 0.0


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


@pytest.mark.parametrize("mode", ["unknown", "none", "swdge", "hwdge"])
def test_the_latency_of_dma_is_that_of_all_generators(mode: str) -> None:
    """Without it, a load and a store take the issue of their descriptors, their data, and semaphores."""

    @nki.jit
    def copied(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        way = getattr(nisa.dge_mode, mode)
        nisa.dma_copy(dst=tile, src=x, dge_mode=way)
        nisa.dma_copy(dst=out, src=tile, dge_mode=way)
        return out

    profile = profiled(copied, shape(128, 512))
    bare = profile.what_if(dma_latency=0.0)
    starts = {
        "unknown": GEN3.dma_start_ns,
        "none": GEN3.dma_static_start_ns,
        "swdge": GEN3.dma_software_start_ns,
        "hwdge": GEN3.dma_hardware_start_ns,
    }
    saved = 2 * (starts[mode] + GEN3.dma_completion_ns)
    assert profile.timeline.ns - bare.timeline.ns == pytest.approx(saved)


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
        ({"partitions": 64}, "the compiler has used this number, 128"),
        ({"sbuf_usable_partition_bytes": 1 << 20}, "the compiler has used this number"),
        ({"dma_bandwidth": 1e-300}, "pass a number between 1e-06 and 1e\\+06"),
        ({"semaphore_ns": 1e308}, "pass a number between 1e-06 and 1e\\+09"),
    ],
)
def test_what_ifs_that_mean_nothing(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(WhatIfError, match=words):
        TILED.what_if(**changes)


def test_a_factor_moves_the_interval_as_well() -> None:
    faster = TILED.what_if(dma_latency=0.5)
    assert all(one < other for one, other in zip(faster.interval, TILED.interval, strict=True))
    certain = TILED.what_if(dma_completion_ns=TILED.target.dma_completion_ns).target.fact("dma_completion_ns")
    assert certain.range is None


def test_a_what_if_takes_the_numbers_of_numpy() -> None:
    plain = TILED.what_if(tensor_clock=2.0).latency
    assert TILED.what_if(tensor_clock=np.float32(2)).latency == TILED.what_if(tensor_clock=np.int64(2)).latency == plain


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nki.profile(functools.partial(matmul.tiled, 3)), "partial object is no kernel"),
        (lambda: nki.profile(np.zeros((128, 512))), "is not a function.*\\(x\\)"),
        (lambda: nki.profile(matmul.tiled, "trn2"), "it takes a kernel alone.*target="),
        (lambda: nki.profile(matmul.tiled, target="trn2", working_directory="/tmp"), "leave working_directory out"),
        (lambda: nki.profile(matmul.tiled, trips=3)(shape(128, 128), shape(128, 512)), "leave trips= out"),
        (lambda: nki.jit(functools.partial(matmul.tiled, 3)), "partial object is no kernel"),
    ],
)
def test_calls_of_a_wrong_form(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(NkiError, match=f"(?s){words}"):
        call()


@pytest.mark.parametrize(("sizes", "dtype"), [((128, None), "float32"), (128, "float32"), ((128, 512), None)])
def test_an_argument_without_a_definite_shape_is_an_error(sizes: Any, dtype: Any) -> None:
    with pytest.raises(KernelArgumentError, match="is specialised for whole numbers and a dtype"):
        profiled(matmul.tiled, SimpleNamespace(shape=sizes, dtype=dtype), shape(128, 512))


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


def counted(x, count, noise):
    """``x`` plus ``count``, which decides by its data; ``noise`` is only read."""
    tile, other = nl.load(x), nl.load(noise)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=other, op=nl.add)

    def body(i):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, nisa.register_alloc(nl.load(count)), body)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=tile)
    return result


def test_only_inputs_that_decide_need_data() -> None:
    x, count = shape(128, 64, dtype="float32"), np.array([[7]], np.int32)
    few = profiled(counted, x, count, x)
    assert few.by_instruction["tensor_scalar"].executions == 7
    with pytest.raises(TripCountError, match="depends on the contents of 'count'\n") as caught:
        profiled(counted, np.zeros((128, 64), np.float32), shape(1, 1, dtype="int32"), x)
    assert "pass 'count' as an array" in str(caught.value) and "trips=64" in str(caught.value)


def test_stated_iterations_are_of_lines_that_have_such_a_loop() -> None:
    x, count = shape(128, 64, dtype="float32"), shape(1, 1, dtype="int32")
    first = counted.__code__.co_firstlineno
    stated = nki.profile(counted, target="trn2", trips={first + 8: 5})(x, count, x)
    assert stated.by_instruction["tensor_scalar"].executions == 5
    with pytest.raises(KernelArgumentError, match="at line 1 no loop has") as caught:
        nki.profile(counted, target="trn2", trips={1: 5})(x, count, x)
    assert f"such loops are at line {first + 8}" in str(caught.value)


def counted_by_a_loop(x, count):
    """The second loop has as many iterations as the first, where the data decide."""
    tile = nl.load(x)
    total = nisa.register_alloc(0)

    def count_up(i):
        nisa.register_move(dst=total, src=i)

    def body(i):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, nisa.register_alloc(nl.load(count)), count_up)
    nl.fori_loop(0, total, body)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=result, src=tile)
    return result


def test_inputs_decide_through_other_loops() -> None:
    program = nki.profile(counted_by_a_loop, target="trn2", trips=3)(shape(128, 64), shape(1, 1, dtype="int32")).program
    core = program.cores[0]
    assert [deciding_inputs(loop, core) for loop in loops(core.body)] == [["count"], ["count"]]


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nki.ShapeDtype(128, "float32"), KernelArgumentError, "a shape is a tuple of whole numbers"),
        (lambda: nki.ShapeDtype((128.0, 4), "float32"), KernelArgumentError, "a shape is a tuple of whole numbers"),
        (lambda: nki.ShapeDtype((128, 0), "float32"), KernelArgumentError, "each at least 1"),
        (lambda: nki.ShapeDtype((128, 4), "float33"), UnknownDTypeError, "'float33' is not an NKI dtype"),
        (lambda: nki.ShapeDtype((128, 4), None), UnknownDTypeError, "None is not an NKI dtype"),
        (lambda: nki.ShapeDtype((128, 4), "float64"), UnknownDTypeError, "use .float32. or another"),
        (lambda: nki.profile(3)(shape(128, 4)), NotAFunctionError, "nki.profile was given 3"),
        (lambda: nki.profile("a.py:kernel")(shape(128, 4)), NotAFunctionError, "nki profile FILE.py:KERNEL"),
        (lambda: nki.profile(matmul.tiled, target=3)(), UnknownTargetError, "target '3' does not exist"),
        (lambda: nki.profile(matmul.tiled, tarket="trn2"), KernelArgumentError, "use facts, order, target, trips"),
        (lambda: nki.profile(matmul.tiled[2], target="trn1")(), GridError, "at most 1 core"),
        (lambda: TILED.compare(3), KernelArgumentError, "this is no profile"),
        (lambda: TILED.to_html("/none/a.html"), ProfileFileError, "/none/a.html: No such file"),
        (lambda: nki.benchmark(nki.jit(counted))(shape(128, 4)), KernelArgumentError, "has no data"),
    ],
)
def test_arguments_that_mean_nothing(make: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@nki.jit
def in_turn(x, widths=(), loop=False):
    """Tiles of ``widths`` columns, each in use until the next one holds its first columns; ``loop``: 4 times."""
    out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)

    def body(_):
        here = None
        for width in widths:
            there = nl.ndarray((128, width), dtype=x.dtype, buffer=nl.sbuf)
            if here is None:
                nisa.dma_copy(dst=there, src=x[:, :width])
            else:
                nisa.memset(dst=there, value=0.0)
                nisa.tensor_copy(dst=there[:, :8], src=here[:, :8])
            here = there
        nisa.dma_copy(dst=out, src=here[:, :8])

    if loop:
        nl.fori_loop(0, 4, body)
    else:
        body(0)
    return out


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize(
    ("widths", "least"),
    [
        ((64, 32, 16, 8), 96),
        ((24000,) * 6, 48000),  # together almost three times SBUF
        ((48000, 1000, 48000, 1000, 48000), 49000),
    ],
)
def test_memory_in_use_is_that_of_tiles_in_use(loop: bool, widths: tuple[int, ...], least: int) -> None:
    profile = nki.profile(in_turn, target="trn2")(nki.ShapeDtype((128, 48000), "float32"), widths=widths, loop=loop)
    used = profile.peak_memory["sbuf"]
    assert 4 * least <= used <= min(4 * sum(widths), GEN3.sbuf_usable_partition_bytes)
