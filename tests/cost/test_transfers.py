"""Estimates of DMA transfers against published numbers, and the bandwidth that all transfers share.

Published times of single transfers are in ``validation/microcases.py``, which ``tests/test_validation.py`` checks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nki.base.element_types import DType, bfloat16, float32, uint32
from nki.cost import dma_costs
from nki.cost.queue_replay import in_order_ns
from nki.ir.estimate import Compute, Dma
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.types import Access, Buffer, Dynamic, IndexKind, Tensor
from nki.isa.tables.operators import OPS
from nki.target import GEN2, GEN3, GEN4, GENERATIONS, Target


def load(target: Target, rows: int, columns: int, dtype: DType = float32) -> Dma:
    """Rows of a dense tensor in HBM to as many partitions of SBUF."""
    source = Access.whole(Tensor("source", (rows, columns), dtype, Buffer.hbm))
    return dma_costs.transfer(Access.whole(Tensor("t", (rows, columns), dtype, Buffer.sbuf)), (source,), target)


def data_ns(target: Target, estimate: Dma) -> float:
    """From the first packet to the last data."""
    return estimate.latency - estimate.issue - estimate.start - target.dma_completion_ns


def load_apart(target: Target, rows: int, columns: int) -> Dma:
    """Parts of rows of a wider tensor in HBM, which do not lie side by side."""
    source = Access(
        Tensor("s", (rows, 2 * columns), float32, Buffer.hbm), 0, (rows, columns), (2 * columns, 1), float32
    )
    return dma_costs.transfer(Access.whole(Tensor("t", (rows, columns), float32, Buffer.sbuf)), (source,), target)


def test_transfers_of_profiles() -> None:
    # trn2, descriptors of 4 KiB: 343 to 418 GB/s, in different profiles.
    fast, many, slow = (load(target, 128, 1024) for target in (GEN3.bound(0), GEN3, GEN3.bound(1)))
    assert slow.bytes / slow.occupancy <= 343 < many.bytes / many.occupancy < 415 <= fast.bytes / fast.occupancy
    # From the sums over all packets of two tutorial kernels: 35 ns for 512 bytes, 89 for 2 KiB.
    for columns, nanoseconds in ((128, 35), (512, 89)):
        assert load_apart(GEN3, 128, columns).occupancy * 16 / 128 == pytest.approx(nanoseconds, rel=0.03)


@pytest.mark.parametrize(("columns", "nanoseconds"), [(64, 14), (128, 23), (512, 80), (1024, 156)])
def test_rows_side_by_side_in_hbm(columns: int, nanoseconds: int) -> None:
    """Profiles on trn2: from packet to packet, of one queue alone."""
    first, last = (load(GEN3.bound(end), 128, columns).occupancy / 8 for end in (0, 1))
    assert first - 1 <= nanoseconds <= last
    if columns <= 128:  # of longer ones other profiles show a rate that limits
        assert load(GEN3, 128, columns).occupancy / 8 == pytest.approx(nanoseconds, rel=0.05)
    assert load(GEN3, 128, columns).occupancy <= load_apart(GEN3, 128, columns).occupancy


def store(target: Target, rows: int, columns: int, dtype: DType = float32) -> Dma:
    """As many partitions of SBUF to rows of a dense tensor in HBM."""
    tile = Access.whole(Tensor("t", (rows, columns), dtype, Buffer.sbuf))
    return dma_costs.transfer(Access.whole(Tensor("result", (rows, columns), dtype, Buffer.hbm)), (tile,), target)


def test_stores_of_profiles() -> None:
    # trn1: loads and stores of as many bytes together move 68 % of 16 x 27.2 GB/s.
    both = load(GEN2, 128, 8192), store(GEN2, 128, 8192)
    rate = sum(each.bytes for each in both) / sum(each.occupancy for each in both)
    assert rate == pytest.approx(0.68 * 16 * 27.2, rel=0.05)


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_what_reads_hbm_or_writes_sbuf_is_no_store(target: Target) -> None:
    """Copies within a memory take as long as loads; a store is never slower, nor faster than HBM and the engines."""
    tiles = [Access.whole(Tensor(name, (128, 4096), float32, Buffer.sbuf)) for name in "ab"]
    rows = [Access.whole(Tensor(name, (128, 4096), float32, Buffer.hbm)) for name in "cd"]
    loaded, stored = load(target, 128, 4096), store(target, 128, 4096)
    for dst, src in (tiles, rows):
        assert dma_costs.transfer(dst, (src,), target).occupancy == pytest.approx(loaded.occupancy, rel=1e-9)
    assert stored.occupancy <= loaded.occupancy
    peak = min(target.dma_engines * target.dma_engine_peak_gbps, target.hbm_stack_gbps)
    assert stored.bytes / stored.occupancy <= dma_costs.bandwidth(target, stores=True) <= peak


def test_fixed_times_of_profiles() -> None:
    small = load(GEN3, 128, 128)
    assert 540 <= small.issue <= 590  # a transfer holds its queue 540-550 ns, the next one begins after 576-590
    # From the trigger to data: 1006 ns with static descriptors, 632 from software, 1335 from hardware; then the reader.
    assert small.latency - data_ns(GEN3, small) == pytest.approx(1006 + 386, abs=5)
    assert small.transfer == pytest.approx(data_ns(GEN3, small))


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_no_transfer_is_faster_than_all_engines(target: Target) -> None:
    for rows, columns in ((1, 1), (1, 65536), (16, 512), (128, 1), (128, 512), (128, 8192)):
        estimate = load(target, rows, columns)
        assert estimate.bytes / estimate.occupancy <= dma_costs.bandwidth(target)
        assert data_ns(target, estimate) >= estimate.occupancy * 0.999
    few, many = load(target, 8, 4096), load(target, 128, 4096)
    assert data_ns(target, few) > 10 * few.occupancy and few.occupancy * 17 > many.occupancy


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_time_is_linear_in_the_bytes(target: Target) -> None:
    one, two, four = (load(target, 128, columns) for columns in (1024, 2048, 4096))
    assert two.occupancy == pytest.approx(2 * one.occupancy) and four.occupancy == pytest.approx(4 * one.occupancy)
    assert four.latency - two.latency == pytest.approx(2 * (two.latency - one.latency))
    assert four.bytes == 4 * one.bytes == 128 * 4096 * 4


def test_short_runs_cost_a_packet_each() -> None:
    wide = Access.whole(Tensor("wide", (128, 512), float32, Buffer.hbm))
    turned = Access(wide.tensor, 0, (128, 128), (1, 512), float32)
    dst = Access.whole(Tensor("t", (128, 128), float32, Buffer.sbuf))
    assert dma_costs.contiguous_bytes(wide) == 128 * 512 * 4 and dma_costs.contiguous_bytes(turned) == 4
    assert dma_costs.contiguous_bytes(dst) == 128 * 4
    dense = Access(wide.tensor, 0, (128, 128), (512, 1), float32)
    turned_ns, dense_ns = (dma_costs.transfer(dst, (source,), GEN3).occupancy for source in (turned, dense))
    assert turned_ns > 50 * dense_ns


def converting_store(target: Target, columns: int) -> Dma:
    """A tile of 128 rows of float32 in SBUF to a dense tensor of bfloat16 in HBM."""
    tile = Access.whole(Tensor("t", (128, columns), float32, Buffer.sbuf))
    return dma_costs.transfer(Access.whole(Tensor("result", (128, columns), bfloat16, Buffer.hbm)), (tile,), target)


def test_converting_transfers_of_profiles() -> None:
    # trn2: packets of 256 bytes of the result, each 39-41 ns; so rows of 512 columns have four.
    for columns in (128, 256, 512):
        packets = 128 * columns // 128
        assert 39 <= converting_store(GEN3, columns).occupancy * 16 / packets <= 41


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_conversion_makes_no_transfer_faster(target: Target) -> None:
    """Single elements, as a transposed load moves them, take at least the time of a packet."""
    source = Tensor("source", (128, 128), bfloat16, Buffer.hbm)
    turned = Access(source, 0, (128, 128), (1, 128), bfloat16)
    plain, converted = (
        dma_costs.transfer(Access.whole(Tensor("t", (128, 128), dtype, Buffer.sbuf)), (turned,), target).occupancy
        for dtype in (bfloat16, float32)
    )
    assert converted > 0.98 * plain


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_parallel_transfers_share_the_bandwidth(target: Target) -> None:
    """16 loads of 1 MiB on 16 rings take as long as 16 MiB at the rate of all engines, and not 16 times less."""
    estimate = load(target, 128, 2048)
    none = [()] * 16
    end = in_order_ns(range(16), [estimate] * 16, none, none, target)
    assert end == pytest.approx(15 * estimate.occupancy + estimate.latency)
    moving = end - estimate.latency + estimate.occupancy
    assert 16 * estimate.bytes / moving <= dma_costs.bandwidth(target) * (1 + 1e-9)
    assert end - in_order_ns([0], [estimate], [()], [()], target) == pytest.approx(15 * estimate.occupancy)


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_a_small_transfer_passes_large_ones(target: Target) -> None:
    """Rings take turns: beside large transfers on three rings, a small one takes four times as long at most."""
    large, small = (replace(load(target, 128, columns), dge="") for columns in (65536, 128))
    reader = Compute(1.0, 1.0, "docs", "test", "vector")
    rings, none = [0, 1, 2, 3], [()] * 4
    transfers = [large, large, large, small]
    alone = in_order_ns([0], [small], [()], [()], target)
    together = in_order_ns(rings, transfers, none, none, target)
    assert together >= 3 * large.occupancy + small.occupancy  # the small one is not free of charge
    # Work of Vector behind the small transfer end after it and not after the large ones.
    long = replace(reader, occupancy=4 * large.occupancy, latency=4 * large.occupancy)
    end = in_order_ns([*rings, 4], [*transfers, long], [*none, (3,)], [()] * 5, target)
    assert alone < end - long.latency <= alone + 3 * small.occupancy * (1 + 1e-9)
    # A later transfer on a large one's ring pays.
    late = in_order_ns([*rings, 0], [*transfers, small], [()] * 5, [()] * 5, target)
    assert late >= 3 * large.occupancy + 2 * small.occupancy


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_small_transfers_beside_a_large_one_do_not_exceed_the_bandwidth(target: Target) -> None:
    large, small = (replace(load(target, 128, columns), dge="") for columns in (65536, 1024))
    estimates = [large, *[small] * 48]
    queues = [0, *[1 + number % 3 for number in range(48)]]
    none = [()] * len(queues)
    end = in_order_ns(queues, estimates, none, none, target)
    assert sum(estimate.bytes for estimate in estimates) / end <= dma_costs.bandwidth(target)


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_one_generator_serves_one_transfer_at_a_time(target: Target) -> None:
    """Small transfers follow each other by the time of their issue, on however many rings they are."""
    estimate = load(target, 128, 8)
    none = [()] * 64
    end = in_order_ns([number % 16 for number in range(64)], [estimate] * 64, none, none, target)
    assert end == pytest.approx(63 * estimate.issue + estimate.latency)


def transposed(target: Target, rows: int, columns: int, dtype: DType = bfloat16) -> Dma:
    """A matrix in HBM to a tile of ``columns`` partitions."""
    source = Tensor("source", (rows, columns), dtype, Buffer.hbm, role="input")
    tile = Tensor("tile", (columns, rows), dtype, Buffer.sbuf)
    return REGISTRY["dma_transpose"](Access.whole(tile), Access.whole(source)).cost(target)


@pytest.mark.parametrize("target", GENERATIONS[1:], ids=str)
def test_a_transpose_moves_whole_blocks_at_the_documented_rate(target: Target) -> None:
    """90 % of a copy's rate in blocks of 128 partitions and 16 elements; a part of a block takes as long."""
    whole = transposed(target, 4096, 128)
    assert whole.bytes / whole.occupancy == pytest.approx(0.9 * dma_costs.bandwidth(target)) and whole.kind == "docs"
    for rows, columns in ((4096, 64), (4081, 128)):
        part = transposed(target, rows, columns)
        assert part.occupancy == whole.occupancy and part.kind == "guess" and part.bytes < whole.bytes
    assert transposed(target, 2048, 128, float32).occupancy == whole.occupancy
    assert transposed(target, 16, 128).transfer == target.dma_spread_ns


def copied(dst: Tensor, src: Tensor) -> Inst:
    return REGISTRY["dma_copy"](Access.whole(dst), Access.whole(src))


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
def test_descriptors_are_generated_for_arguments_alone(target: Target) -> None:
    """The compiler's log says: DGE ON Levels: {'io', 'scalar_dynamic_offset'}."""
    tile = Tensor("tile", (128, 512), float32, Buffer.sbuf)
    roles = {role: Tensor("t", (128, 512), float32, Buffer.hbm, role=role) for role in ("input", "output", "", "spill")}
    found = {role: copied(tile, tensor).cost(target) for role, tensor in roles.items()}
    assert {role for role, estimate in found.items() if estimate.dge} == {"input", "output"}
    assert found[""].issue == found["spill"].issue == target.sequencer_ns < found["input"].issue
    assert found[""].occupancy == found["input"].occupancy


def added(target: Target, dst: Access, srcs: tuple[Access, ...]) -> Dma:
    declaration: Any = REGISTRY["dma_compute"]
    return declaration(dst=dst, srcs=srcs, reduce_op=OPS["add"]).cost(target)


def test_sums_by_dma_have_half_of_the_rate() -> None:
    """Trainium3 guide: 50 % of the DMA throughput where DMA engines compute, as all generations do through nki.isa; the
    new way of trn3 has all of it, which is the fast end of the interval.
    """
    tile = Access.whole(Tensor("t", (128, 2048), float32, Buffer.sbuf))
    source = Access.whole(Tensor("x", (128, 2048), float32, Buffer.hbm))
    bytes_moved = 128 * 2048 * 4
    for target, rate in ((GEN2, 264), (GEN3, 376), (GEN4, 528)):
        plain, own = load(target, 128, 2048), dma_costs.transfer(tile, (tile,), target).occupancy
        total = added(target, tile, (tile, source))
        assert total.occupancy == pytest.approx(plain.occupancy + own) == pytest.approx(2 * bytes_moved / rate, rel=0.1)
        three = added(target, tile, (tile, source, source))
        assert three.occupancy == pytest.approx(2 * plain.occupancy + own)
        assert added(target, tile, (source,)).occupancy == pytest.approx(plain.occupancy)
    fast = GEN4.bound(0)
    assert added(fast, tile, (tile, source)).occupancy == pytest.approx(load(fast, 128, 2048).occupancy, rel=0.01)


def test_sums_by_dma_have_descriptors_in_hbm() -> None:
    """Reference, dma_compute: without indices "the only supported DGE mode is None (static DMA)", else software."""
    tile = Access.whole(Tensor("t", (128, 64), float32, Buffer.sbuf))
    table = Tensor("x", (512, 64), float32, Buffer.hbm, role="input")
    assert added(GEN3, tile, (tile, Access(table, 0, (128, 64), (64, 1), float32))).dge == ""
    rows = Access.whole(Tensor("i", (128, 1), uint32, Buffer.sbuf))
    gathered = Access(table, 0, (128, 64), (64, 1), float32, Dynamic(rows, 64, IndexKind.rows))
    assert added(GEN3, tile, (tile, gathered)).dge == "gpsimd"


def test_an_exchange_waits_for_a_barrier() -> None:
    """Reference, sendrecv: "the standard DMA engine with CoreBarrier synchronization"."""
    tile = Access.whole(Tensor("t", (128, 512), float32, Buffer.sbuf))
    for target in (GEN3, GEN4):
        sent, copied = dma_costs.exchanged(tile, tile, target), dma_costs.transfer(tile, (tile,), target, dge="")
        barrier = target.sequencer_ns + target.remote_semaphore_ns
        assert sent.latency - copied.latency == pytest.approx(barrier)
        assert sent.start - copied.start == pytest.approx(barrier)
        assert (sent.occupancy, sent.issue, sent.transfer) == (copied.occupancy, copied.issue, copied.transfer)
