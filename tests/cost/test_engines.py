"""Estimates of engine instructions against documents and each other.

Published times of single instructions are in ``validation/microcases.py``, which ``tests/test_validation.py`` checks.
"""

from __future__ import annotations

from typing import Any

import pytest

import nki.isa as nisa
from nki.base.element_types import DType, bfloat16, float8_e5m2, float16, float32, int16, int32, uint8, uint16
from nki.cost import engines
from nki.ir.estimate import Estimate
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.types import Access, Buffer, Dynamic, Tensor
from nki.isa.tables.operators import OPS
from nki.passes.scheduling.engine_assignment import candidates
from nki.target import GEN2, GEN3, GEN4, GENERATIONS, Target

ADD = OPS["add"]
DIVIDE = OPS["divide"]


def tile(columns: int, dtype: DType = float32, buffer: Buffer = Buffer.sbuf, partitions: int = 128) -> Access:
    return Access.whole(Tensor("t", (partitions, columns), dtype, buffer))


def psum(columns: int, dtype: DType = float32) -> Access:
    return tile(columns, dtype, Buffer.psum)


def estimate(target: Target, mnemonic: str, **arguments: Any) -> Estimate:
    declaration: Any = REGISTRY[mnemonic]
    return declaration(**arguments).cost(target)


def duration(target: Target, mnemonic: str, **arguments: Any) -> float:
    """Nanoseconds from start to completion, as a profile shows them."""
    return estimate(target, mnemonic, **arguments).latency - target.semaphore_ns


def matmul(target: Target, columns: int, dtype: DType = bfloat16) -> Estimate:
    return estimate(target, "nc_matmul", dst=psum(columns), stationary=tile(128, dtype), moving=tile(columns, dtype))


def test_duration_of_a_matmul() -> None:
    """On trn2 586-595 ns for two passes of 512 columns, so 373 for one."""
    assert 370 <= matmul(GEN3, 512, float16).latency - GEN3.semaphore_ns <= 380


def test_narrow_copies_are_faster() -> None:
    """Elements of 16 bits: four a cycle within SBUF, two a cycle from PSUM (architecture guide of trn2)."""
    engine = nisa.engine.vector
    start = GEN3.vector_latency_ns
    within = duration(GEN3, "tensor_copy", dst=tile(1024, bfloat16), src=tile(1024, bfloat16), engine=engine)
    assert within - start == pytest.approx(1024 / 4 / 0.96)
    out = duration(GEN3, "tensor_copy", dst=tile(1024, bfloat16), src=psum(1024, bfloat16), engine=engine)
    assert out - start == pytest.approx(1024 / 2 / 0.96)
    first = duration(GEN2, "tensor_copy", dst=tile(1024, bfloat16), src=tile(1024, bfloat16), engine=engine)
    assert first - GEN2.vector_latency_ns == pytest.approx(1024 / 1.12)


def cycles(target: Target, mnemonic: str, **arguments: Any) -> float:
    """Vector cycles per element, of 2048."""
    each = estimate(target, mnemonic, **arguments)
    return round((each.occupancy * target.vector_clock_ghz - target.vector_issue_cycles) / 2048, 3)


def test_the_performance_mode_is_one_of_16_bit_floats() -> None:
    """Architecture guides: trn2 doubles BF16 and FP16, trn3 8-bit floats too; others have 256 elements a cycle."""
    kinds = (bfloat16, float16, float8_e5m2, uint8, uint16, float32)
    expected = {GEN2: [1.0] * 6, GEN3: [0.25, 0.25, 0.5, 0.5, 0.5, 0.5], GEN4: [0.25, 0.25, 0.25, 0.5, 0.5, 0.5]}
    for target, rates in expected.items():
        made = [cycles(target, "tensor_copy", dst=tile(2048, kind), src=tile(2048, kind)) for kind in kinds]
        assert made == rates
    narrow, wide = tile(2048, bfloat16), tile(2048)
    assert cycles(GEN3, "tensor_copy", dst=wide, src=narrow) == 0.5


def test_the_performance_mode_needs_neighbours_and_sbuf() -> None:
    """Architecture guide of trn2: half the lift for elements apart or one side in PSUM; none where both hold."""
    apart = strided(2048, 2, bfloat16)
    near, far = tile(2048, bfloat16), psum(2048, bfloat16)
    pairs = [(near, near), (near, apart), (near, far), (far, near), (far, apart), (far, far)]
    assert [cycles(GEN3, "tensor_copy", dst=dst, src=src) for dst, src in pairs] == [0.25, 0.5, 0.5, 0.5, 1.0, 1.0]


def test_two_tiles_take_the_cycles_of_the_documents() -> None:
    """Reference of release 2.26.1 for trn1: one cycle for bfloat16, simple operators and neighbours, else two.

    Guide of trn2: twice that throughput for 16-bit floats, neighbours or not; 256 elements a cycle of other dtypes are
    one pair a lane. One tile in PSUM is one cycle everywhere.
    """
    near, apart, half = tile(2048, bfloat16), strided(2048, 2, bfloat16), tile(2048, float16)
    add, most, integers = OPS["add"], OPS["maximum"], tile(2048, int16)

    def pair(target: Target, first: Access, second: Access, op: Any, dst: Access) -> float:
        return cycles(target, "tensor_tensor", dst=dst, data1=first, data2=second, op=op)

    for target, narrow, other, best in ((GEN2, 1.0, 2.0, 2.0), (GEN3, 0.5, 0.5, 1.0), (GEN4, 0.5, 0.5, 1.0)):
        assert pair(target, near, near, add, near) == narrow
        assert pair(target, near, near, most, near) == other
        assert pair(target, near, apart, add, near) == other
        assert pair(target, half, half, add, half) == other
        assert pair(target, near, near, add, psum(2048, bfloat16)) == narrow
        assert pair(target, near, near, add, tile(2048)) == best
        assert pair(target, psum(2048, bfloat16), near, add, near) == 1.0
        assert pair(target, integers, integers, add, integers) == best
        assert pair(target, tile(2048), tile(2048), add, tile(2048)) == best
        assert pair(target, psum(2048), tile(2048), add, tile(2048)) == 1.0
        assert pair(target, psum(2048), psum(2048), add, tile(2048)) == 2.0


@pytest.mark.parametrize(
    ("dtype", "trn1", "trn2"), [(float32, [2.0, 2.0], [1.0, 2.0]), (bfloat16, [1.0, 1.0], [0.5, 1.0])]
)
def test_the_interval_holds_both_readings_of_two_tiles(dtype: DType, trn1: list[float], trn2: list[float]) -> None:
    """No profile of trn2 shows two of them. Its width makes float32 one cycle, the rule of trn1 two; "twice the
    throughput" for 16 bits is twice the special case of trn1, or twice its rule.
    """
    pair = {name: tile(2048, dtype) for name in ("dst", "data1", "data2")}
    assert [cycles(GEN3.bound(end), "tensor_tensor", **pair, op=ADD) for end in (0, 1)] == trn2
    assert [cycles(GEN2.bound(end), "tensor_tensor", **pair, op=ADD) for end in (0, 1)] == trn1


def test_the_interval_holds_what_documents_say_of_short_instructions() -> None:
    """The reference counts 64 cycles from start to start, the architecture guide 100 beside the elements, nki-library
    144 for each instruction on later generations.
    """
    for target, clock, fewest, most in ((GEN2, 1.12, 64, 100), (GEN3, 0.96, 100, 144)):
        ends = [
            estimate(target.bound(end), "tensor_copy", dst=tile(8), src=tile(8), engine=nisa.engine.vector)
            for end in (0, 1)
        ]
        cycles = [each.occupancy * clock for each in ends]
        assert cycles == pytest.approx([fewest, most], abs=1)
        assert fewest < estimate(target, "tensor_copy", dst=tile(8), src=tile(8)).occupancy * clock < most


@pytest.mark.parametrize("dtype", [float32, bfloat16])
def test_gpsimd_reads_two_tiles_one_after_the_other(dtype: DType) -> None:
    """It is 128 elements wide for every dtype (architecture guide of trn3), and has no performance mode."""

    def ns(target: Target, columns: int) -> float:
        pair = {name: tile(columns, dtype) for name in ("dst", "data1", "data2")}
        return estimate(target, "tensor_tensor", **pair, op=ADD, engine=nisa.engine.gpsimd).occupancy

    for target in GENERATIONS:
        assert ns(target, 2048) - ns(target, 1024) == pytest.approx(2 * 1024 / target.gpsimd_clock_ghz)


def test_a_scalar_operand_before_the_second_tile_costs_nothing() -> None:
    """By the reference, scalar_tensor_tensor takes as long as tensor_tensor; release 2.26.1 has the rate
    of 16 bits for subtract and multiply alone.
    """
    near = tile(2048, bfloat16)

    def pair(target: Target, first: Access, second: Access, op0: str, op1: str, dst: Access) -> float:
        more = {"op0": OPS[op0], "operand0": 2.0, "op1": OPS[op1], "operand1": second}
        return cycles(target, "scalar_tensor_tensor", dst=dst, data=first, **more)

    for target, simple, other, wide in ((GEN2, 1.0, 2.0, 2.0), (GEN3, 0.5, 0.5, 1.0), (GEN4, 0.5, 0.5, 1.0)):
        assert pair(target, near, near, "subtract", "multiply", near) == simple
        assert pair(target, near, near, "multiply", "add", near) == other
        assert pair(target, psum(2048), tile(2048), "multiply", "add", tile(2048)) == 1.0
        assert pair(target, tile(2048), tile(2048), "subtract", "multiply", tile(2048)) == wide


def test_zeros_of_16_bits_are_set_twice_as_fast_on_trn1() -> None:
    zeros, ones = (cycles(GEN2, "memset", dst=tile(2048, bfloat16), value=value) for value in (0.0, 1.0))
    assert (zeros, ones) == (0.5, 1.0)
    assert cycles(GEN2, "memset", dst=tile(2048), value=0.0) == 1.0
    assert cycles(GEN3, "memset", dst=tile(2048, bfloat16), value=0.0) == 0.25


@pytest.mark.parametrize("target", GENERATIONS, ids=str)
@pytest.mark.parametrize("engine", [nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd])
def test_time_is_linear_in_the_elements(target: Target, engine: Any) -> None:
    def cost(columns: int) -> Estimate:
        return estimate(target, "tensor_copy", dst=tile(columns), src=tile(columns), engine=engine)

    one, two, three = cost(1000), cost(2000), cost(3000)
    for field in ("occupancy", "latency"):
        step = getattr(two, field) - getattr(one, field)
        assert step > 0 and getattr(three, field) - getattr(two, field) == pytest.approx(step)
    assert one.dependent == pytest.approx(three.dependent)
    assert one.resource == engine.name


def test_an_engine_that_is_left_open_is_priced_as_the_preferred_one() -> None:
    copy: Inst = REGISTRY["tensor_copy"](dst=tile(64), src=tile(64))  # type: ignore[call-arg]
    assert engines.engine_of(copy) == copy.cost(GEN4).resource == "vector"


def test_engines_that_exclude_each_other() -> None:
    """Trn1: Vector and GpSimd on SBUF, Vector and Scalar on PSUM."""
    pairs = [("vector", "gpsimd"), ("vector", "scalar"), ("scalar", "gpsimd")]
    for target, expected in ((GEN2, [(0, 1), (1, 0), (1, 1)]), (GEN3, [(1, 1)] * 3), (GEN4, [(1, 1)] * 3)):
        shared = [tuple(engines.share_memory(*pair, b, target) for b in (Buffer.sbuf, Buffer.psum)) for pair in pairs]
        assert shared == expected


@pytest.mark.parametrize("columns", [512, 128])
def test_a_float32_product_on_trn1_is_two_instructions(columns: int) -> None:
    """Each of two cycles a column (profile schema reference), and issued as one of 16 bits."""
    product = matmul(GEN2, columns, float32)
    assert product.occupancy == pytest.approx((4 * columns / 0.875 + 2 * 10) / 2.8)
    assert product.weight_load_saving == 0.0  # the next one of the same operand begins with the other half
    assert product.latency - GEN2.semaphore_ns == pytest.approx((10 + 4 * columns) / 2.8 + GEN2.matmul_latency_ns)
    assert matmul(GEN2.bound(0), columns, float32).occupancy == pytest.approx((4 * columns + 6) / 2.8)


def test_trn1_limits_products_that_follow_each_other() -> None:
    """Profiles on inf2: four products of 512 columns with the same weights begin 189, 203 and 211 ns after each other,
    the last ones at 7/8 of the clock; one alone is complete after 329. On trn1 212.4 to 213.7 with new weights.
    """
    product = matmul(GEN2, 512)
    assert 211 <= product.occupancy - product.weight_load_saving <= product.occupancy <= 213.7
    assert product.latency - GEN2.semaphore_ns == pytest.approx(329, rel=0.01)
    assert 185 <= matmul(GEN2.bound(0), 512).occupancy <= 189


@pytest.mark.parametrize("hint", ["is_stationary_onezero", "is_moving_onezero"])
def test_ones_and_zeros_take_half_the_passes_of_float32(hint: str) -> None:
    for dtype, ratio in ((float32, 2), (bfloat16, 1)):
        operands = {"dst": psum(512), "stationary": tile(128, dtype), "moving": tile(512, dtype)}
        plain, hinted = (estimate(GEN3, "nc_matmul", **operands, **more) for more in ({}, {hint: True}))
        assert plain.occupancy == pytest.approx(ratio * hinted.occupancy, rel=0.02)


def strided(columns: int, step: int, dtype: DType = float32) -> Access:
    whole = tile(columns * step, dtype)
    return Access(whole.tensor, 0, (128, columns), (columns * step, step), dtype)


def copied(target: Target, src: Access, dst: Access | None = None, engine: str = "vector") -> float:
    """Time between the starts of copies of 2048 elements."""
    dst = tile(2048, src.dtype) if dst is None else dst
    return estimate(target, "tensor_copy", dst=dst, src=src, engine=getattr(nisa.engine, engine)).occupancy


def test_strides_beyond_16_bytes_halve_the_rate_of_memory() -> None:
    # Architecture guide of NeuronCore-v2: 128 elements per cycle at 1.4 GHz, half of it beyond 16 bytes.
    dense = copied(GEN2, tile(2048), engine="scalar")
    assert copied(GEN2, strided(2048, 4), engine="scalar") == dense
    assert copied(GEN2, strided(2048, 5), engine="scalar") == pytest.approx(2 * dense, rel=0.02)
    assert copied(GEN2, tile(2048), strided(2048, 5), engine="scalar") == pytest.approx(2 * dense, rel=0.02)
    # Vector's clock is slower than the memory's, so it loses less.
    assert copied(GEN2, strided(2048, 5)) == pytest.approx(2048 / 0.7, rel=0.02)
    assert copied(GEN2, strided(2048, 8, bfloat16)) == copied(GEN2, tile(2048, bfloat16))
    assert copied(GEN2, strided(2048, 9, bfloat16)) == pytest.approx(2048 / 0.7, rel=0.02)


def test_strided_16_bit_copies_of_trn2_have_twice_the_rate_of_trn1() -> None:
    first, second = (copied(target, strided(2048, 32, bfloat16)) for target in (GEN2, GEN3))
    assert first / second == pytest.approx(2, rel=0.05)
    assert copied(GEN3, tile(2048, bfloat16)) < second < copied(GEN3, strided(2048, 32))


def test_two_strided_inputs_share_an_interface() -> None:
    def added(left: Access, right: Access) -> float:
        return estimate(GEN2, "tensor_tensor", dst=tile(2048), data1=left, data2=right, op=ADD).occupancy

    dense, apart = tile(2048), strided(2048, 8)
    assert added(dense, dense) < added(dense, apart) < added(apart, apart)
    assert added(apart, apart) == pytest.approx(2 * copied(GEN2, apart), rel=0.02)


def product(target: Target, moving: Access, stationary: Access, dst: Access) -> Estimate:
    return estimate(target, "nc_matmul", dst=dst, stationary=stationary, moving=moving)


@pytest.mark.parametrize(("target", "clock", "issue"), [(GEN2, 2.8, 10), (GEN3, 2.4, 10), (GEN4, 2.4, 10)], ids=str)
def test_columns_far_apart_halve_the_rate_of_products(target: Target, clock: float, issue: int) -> None:
    """Architecture guide of NeuronCore-v2: beyond 16 bytes, half of the rate of each interface for tensors."""
    near, sums = tile(128, bfloat16), psum(512)
    dense = product(target, tile(512, bfloat16), near, sums)
    assert product(target, strided(512, 8, bfloat16), near, sums).occupancy == dense.occupancy
    for moving, dst in ((strided(512, 9, bfloat16), sums), (tile(512, bfloat16), apart_in_psum(512, 5))):
        far = product(target, moving, near, dst)
        assert far.occupancy == pytest.approx((2 * 512 + issue) / clock)
        assert far.latency - dense.latency == pytest.approx(512 / clock)
        assert far.kind == "guess" and far.source == target.source("strided_matmul_cycles")
        # At half of the clock the array keeps pace with the memory.
        assert far.occupancy * far.clocked == pytest.approx(512 / clock)


def apart_in_psum(columns: int, step: int) -> Access:
    whole = Tensor("sums", (128, columns * step), float32, Buffer.psum)
    return Access(whole, 0, (128, columns), (columns * step, step), float32)


def test_loads_of_far_columns_are_hidden_unless_products_are_short() -> None:
    """A load takes 32 cycles of 128 columns, 64 of far ones: as many as the shortest product."""
    near, far = tile(128, bfloat16), strided(128, 9, bfloat16)
    for columns in (16, 512):
        moving, sums = tile(columns, bfloat16), psum(columns)
        assert product(GEN3, moving, far, sums).occupancy == product(GEN3, moving, near, sums).occupancy
    slow = GEN3.bound(1)  # a quarter of the rate, in the slower reading
    assert product(slow, tile(16, bfloat16), far, psum(16)).occupancy == pytest.approx(128 / 2.4)


def test_float32_products_have_time_for_far_columns() -> None:
    """Their columns take four cycles."""
    near, sums = tile(128), psum(512)
    for target in GENERATIONS:
        far, dense = (product(target, moving, near, sums) for moving in (strided(512, 8), tile(512)))
        assert far.occupancy == dense.occupancy


def test_selections_read_two_tiles() -> None:
    """Reference of release 2.26.1, tensor_copy_predicated: N cycles with one of both in PSUM, 2 N with both in SBUF.
    The width of Vector on trn2 makes that N, as for tensor_tensor.
    """
    for target, both in ((GEN2, 2.0), (GEN3, 1.0), (GEN4, 1.0), (GEN3.bound(1), 2.0)):
        for where, expected in ((tile(2048), both), (psum(2048), 1.0)):
            copied = {"dst": tile(2048), "src": where, "predicate": tile(2048, uint8)}
            assert cycles(target, "tensor_copy_predicated", **copied) == expected
            chosen = {"dst": tile(2048), "on_true": where, "on_false": 0.0, "predicate": tile(2048, uint8)}
            assert cycles(target, "select_reduce", **chosen) == expected * target.unpublished_cost


def test_reverse_square_roots_take_gpsimd_four_times_as_long_as_scalar() -> None:
    """NKI ISA API Common Fields: "4x lower" throughput."""

    def ns(target: Target, columns: int) -> float:
        root = {"op0": OPS["rsqrt"], "operand0": 0.0, "engine": nisa.engine.gpsimd}
        return estimate(target, "tensor_scalar", dst=tile(columns), data=tile(columns), **root).occupancy

    for target, clock in ((GEN2, 1.4), (GEN3, 1.2), (GEN4, 1.2)):
        assert ns(target, 2048) - ns(target, 1024) == pytest.approx(4 * 1024 / clock)


def test_the_compiler_runs_reverse_square_roots_on_gpsimd() -> None:
    """Reference of release 2.26.1, Supported Math Operators: GpSIMD and Scalar; Scalar has no such tensor_scalar."""
    declaration: Any = REGISTRY["tensor_scalar"]
    root: dict[str, Any] = {"op0": ADD, "operand0": 1e-5, "op1": OPS["rsqrt"], "operand1": 0.0}
    for target in GENERATIONS:
        first = [candidates(declaration(dst=dst, data=tile(8), **root), target)[0] for dst in (tile(8), psum(8))]
        assert [each.queue for each in first] == ["gpsimd", "vector"]  # GpSimd does not reach PSUM


def test_a_division_is_a_product_behind_reciprocals() -> None:
    """Known issues of NKI 0.3: "Division is not available as a hardware instruction"."""
    for target in GENERATIONS:
        each = target.divisor_cycles
        for mnemonic, operands in (("tensor_tensor", {}), ("scalar_tensor_tensor", {"op0": ADD, "operand0": 2.0})):
            first, op = ("data", "op1") if operands else ("data1", "op")
            second = "operand1" if operands else "data2"
            tiles = {"dst": tile(2048), first: tile(2048), second: tile(2048)}
            product = estimate(target, mnemonic, **tiles, **operands, **{op: OPS["multiply"]})
            divided = estimate(target, mnemonic, **tiles, **operands, **{op: DIVIDE})
            more = (2048 * each + target.vector_issue_cycles) / target.vector_clock_ghz
            assert divided.occupancy - product.occupancy == pytest.approx(more)
            assert divided.kind == "guess"


def test_a_division_inverts_numbers_ahead_and_columns_once() -> None:
    def ns(op: Any, operand: Any, reverse: bool = False, data: Access | None = None) -> float:
        arguments = {"op0": op, "operand0": operand, "reverse0": reverse, "engine": nisa.engine.vector}
        return estimate(GEN2, "tensor_scalar", dst=tile(2048), data=data or tile(2048), **arguments).occupancy

    product = ns(OPS["multiply"], 2.0)
    assert ns(DIVIDE, 2.0) == product
    short = (GEN2.min_interval_cycles + GEN2.vector_issue_cycles) / GEN2.vector_clock_ghz
    assert ns(DIVIDE, tile(1)) - ns(OPS["multiply"], tile(1)) == pytest.approx(short)
    assert ns(DIVIDE, 2.0, True) - product == pytest.approx((8 * 2048 + 19) / 1.12)
    column = Tensor("c", (128, 1), float32, Buffer.sbuf)
    repeated = Access(column, 0, (128, 2048), (1, 0), float32)
    whole = {"dst": tile(2048), "data1": tile(2048), "data2": repeated}
    both = [estimate(GEN2, "tensor_tensor", op=op, **whole).occupancy for op in (DIVIDE, OPS["multiply"])]
    assert both[0] - both[1] == pytest.approx(short)


def moved_by(index: Tensor) -> Access:
    """64 columns of a tile, from one on that ``index`` knows."""
    whole = Tensor("x", (128, 4096), float32, Buffer.sbuf)
    return Access(whole, 0, (128, 64), (4096, 1), float32, Dynamic(Access.whole(index), 1))


def test_an_offset_from_a_tile_takes_600_cycles() -> None:
    """Reference of release 2.26.1, tensor_copy_dynamic_src: max(~600, N). A register has been loaded before."""
    held, loaded = (Tensor("i", (1, 1), int32, buffer) for buffer in (Buffer.register, Buffer.sbuf))
    for engine, clock, issue in ((nisa.engine.vector, 0.96, 62), (nisa.engine.scalar, 1.2, 55)):
        plain, by_register, by_tile = (
            estimate(GEN3, "tensor_copy", dst=tile(64), src=src, engine=engine)
            for src in (tile(64), moved_by(held), moved_by(loaded))
        )
        assert by_register.occupancy == plain.occupancy and by_register.latency == plain.latency
        assert by_tile.occupancy == pytest.approx((600 + issue) / clock)
        assert by_tile.latency > plain.latency + 500 / clock
    weights, sums = tile(64), psum(64)  # whatever the clock of the products
    by_tile = estimate(GEN3, "nc_matmul", dst=sums, stationary=weights, moving=moved_by(loaded))
    assert by_tile.occupancy == pytest.approx(600 / 0.96)
    assert by_tile.occupancy * by_tile.clocked == pytest.approx(64 * 4 / 2.4)
    long = estimate(GEN3, "tensor_copy", dst=tile(2048), src=psum(2048), engine=nisa.engine.vector)
    assert long.occupancy == pytest.approx((2048 + 62) / 0.96)


def test_the_performance_mode_of_vector_and_gpsimd_share_a_bus() -> None:
    """Architecture guide of trn2: "VectorE's performance mode leverages a shared memory bus"; it does not say how."""

    def bus(target: Target, dst: Access, src: Access, engine: str = "vector") -> float:
        copy = estimate(target, "tensor_copy", dst=dst, src=src, engine=getattr(nisa.engine, engine))
        assert copy.ports == (("bus",) if copy.ports_ns else ())
        return copy.ports_ns

    near = tile(2048, bfloat16)
    for target, clock in ((GEN3, 0.96), (GEN4, 1.2)):
        whole = 2048 / 4 / clock
        assert bus(target, near, near) == pytest.approx(whole / 2)
        assert [bus(target.bound(end), near, near) for end in (0, 1)] == [0.0, pytest.approx(whole)]
        assert bus(target, tile(2048), psum(2048)) == 0.0  # one element a cycle, as before trn2
        assert bus(target, near, near, "scalar") == 0.0
        assert bus(target, near, near, "gpsimd") == pytest.approx(2048 / 1.2 / 2)


def test_an_engine_keeps_a_memory_of_trn1_until_another_one_knows_of_its_result() -> None:
    """Architecture guide of trn1: the compiler serializes such instructions; if by a semaphore, it does not say."""
    near = tile(2048, bfloat16)
    for target, part in ((GEN2, 0.5), (GEN2.bound(0), 0.0), (GEN2.bound(1), 1.0)):
        copy = estimate(target, "tensor_copy", dst=near, src=near, engine=nisa.engine.gpsimd)
        assert copy.ports == ("sbuf",) and copy.latency > copy.occupancy
        assert copy.ports_ns == pytest.approx(part * copy.latency + (1.0 - part) * copy.occupancy)


def test_both_ways_to_transpose_take_the_same_time() -> None:
    """Trainium2 guide: the transpose mode, which both instructions use, makes float32 twice as fast."""
    for target, halved in ((GEN2, 1), (GEN3, 2), (GEN4, 2)):
        for dtype, passes in ((bfloat16, 1), (float32, 4 // halved)):
            operands = {"dst": psum(128, dtype), "stationary": tile(128, dtype), "moving": tile(128, dtype)}
            product = estimate(target, "nc_matmul", **operands, is_transpose=True)
            engine = nisa.engine.tensor
            turned = estimate(target, "nc_transpose", dst=psum(128, dtype), data=tile(128, dtype), engine=engine)
            assert (product.occupancy, product.latency) == (turned.occupancy, turned.latency)
            issue = max(1, passes // 2) * (target.matmul_issue_cycles + target.stationary_load_cycles)
            cycles = passes * 128 / target.tensor_activity_limit + issue
            assert turned.occupancy == pytest.approx(cycles / target.tensor_clock_ghz)


def test_powers_take_a_guess_of_gpsimd() -> None:
    """As many cycles as its reverse square root; no document tells more than the engine."""
    two = {"data1": tile(512), "data2": tile(512), "op": OPS["power"]}
    one = {"data": tile(512), "op0": OPS["power"], "operand0": 2.0, "engine": nisa.engine.gpsimd}
    for target in (GEN2, GEN3, GEN4):
        both = [estimate(target, name, dst=tile(512), **operands) for name, operands in (
            ("tensor_tensor", two), ("tensor_scalar", one),
        )]  # fmt: skip
        assert [each.resource for each in both] == ["gpsimd", "gpsimd"] and both[0].kind == both[1].kind == "guess"
        expected = (4 * 512 + target.gpsimd_issue_cycles) / target.gpsimd_clock_ghz
        assert [each.occupancy for each in both] == pytest.approx([expected] * 2)
