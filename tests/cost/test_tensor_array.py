"""Products in parts of the Tensor engine's array: in parallel in different parts, one after the other in the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from nki.base.element_types import bfloat16
from nki.cost.tensor_array import TensorClock, blocks
from nki.ir.estimate import Estimate
from nki.ir.instruction import REGISTRY
from nki.ir.types import Access, Buffer, Tensor
from nki.target import GEN2, GEN3, Target
from tests.cost.replays import replayed


def tile(rows: int, columns: int, dtype: Any = bfloat16, buffer: Buffer = Buffer.sbuf) -> Access:
    return Access.whole(Tensor("t", (rows, columns), dtype, buffer))


def product(target: Target, position: tuple[int, int] = (), size: tuple[int, int] = (), columns: int = 512) -> Estimate:
    """One of a part of the array, or of all of it."""
    rows, loaded = size or (128, 128)
    declaration: Any = REGISTRY["nc_matmul"]
    operands = tile(loaded, columns, buffer=Buffer.psum), tile(rows, loaded), tile(rows, columns)
    return declaration(*operands, tile_position=position, tile_size=size).cost(target)


def starts(target: Target, products: list[Estimate]) -> list[float]:
    """The times at which products begin that wait for nothing but the engine."""
    return replayed([0] * len(products), products, target=target).starts


def test_blocks_of_a_part() -> None:
    assert blocks((0, 0), (128, 128), GEN3) == 0xFFFF
    assert blocks((0, 32), (128, 32), GEN3) == 0x2222
    assert blocks((64, 0), (64, 128), GEN3) == 0xFF00
    assert blocks((96, 64), (32, 64), GEN3) == 0xC000


@pytest.mark.parametrize(("target", "side"), [(GEN2, 64), (GEN3, 32), (GEN3, 64)])
@pytest.mark.parametrize("by_rows", [False, True])
def test_products_in_all_parts_take_the_time_of_one(target: Target, side: int, by_rows: bool) -> None:
    """A round over the parts begins when the first part is free again: as long as one product of the whole array, less
    what the load of fewer columns saves.
    """
    whole = product(target)
    count = 128 // side
    parts = [
        product(target, (n * side, 0) if by_rows else (0, n * side), (side, 128) if by_rows else (128, side))
        for n in range(count)
    ]
    begun = starts(GEN2, parts * 8)  # without the throttled clock of trn2
    rounds = [later - sooner for sooner, later in zip(begun[::count], begun[count::count], strict=False)]
    assert rounds == pytest.approx([whole.occupancy] * len(rounds), rel=0.01)


def test_products_in_one_part_follow_each_other_as_in_the_whole_array() -> None:
    whole, part = product(GEN3), product(GEN3, (0, 32), (128, 32))
    assert part.occupancy < 0.3 * whole.occupancy
    assert starts(GEN3, [part] * 200)[-1] == pytest.approx(starts(GEN3, [whole] * 200)[-1], rel=0.01)


def test_a_product_of_the_whole_array_waits_for_its_parts_and_they_wait_for_it() -> None:
    whole, part = product(GEN2), product(GEN2, (0, 64), (128, 64))
    begun = starts(GEN2, [part, whole, part])
    assert begun[1] == pytest.approx(part.array_ns)
    assert begun[2] == pytest.approx(begun[1] + whole.occupancy)


def test_short_products_gain_nothing() -> None:
    """The engine begins them 64 cycles apart at best (architecture guide of NeuronCore-v2, MM_INIT_LATENCY)."""
    part, whole = product(GEN3, (0, 0), (128, 32), 16), product(GEN3, columns=16)
    assert part.occupancy == whole.occupancy == pytest.approx(64 / 2.4)


def test_a_clock_that_waits_for_a_part_counts_the_time_as_busy() -> None:
    """Waits and work give the same windows, wherever the borders of windows fall."""
    random = Random(5)
    for _ in range(50):
        working, waiting = TensorClock(GEN3), TensorClock(GEN3)
        time = 0.0
        while time < 40_000:
            gap, busy, activity = random.uniform(0, 900), random.uniform(1, 9000), random.choice((0.5, 1.0))
            time += gap
            end = working.run(time, busy, activity)
            waiting.wait(time, end, activity)
            time = end
        assert waiting.windows == working.windows
        assert waiting.busy == pytest.approx(working.busy, abs=1e-6)
