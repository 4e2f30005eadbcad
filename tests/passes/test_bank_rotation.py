"""Banks of PSUM: tiles of one place in the source take turns, and no tile waits for the one before without need."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.analysis.liveness import LiveRange, peak_pressure
from nki.base.element_types import float32
from nki.ir.types import Buffer, Tensor
from nki.passes.allocation.bank_rotation import rotated
from nki.profiling.kernel_profile import profile
from nki.profiling.shapes import ShapeDtype
from tests.passes.small_memory import BANK, P, tile


def named(name: str, first: int, last: int) -> LiveRange:
    return LiveRange(Tensor(name, (P, 512), float32, Buffer.psum), first, last, BANK, BANK)


def banks_of(ranges: list[LiveRange], count: int) -> dict[str, list[int]]:
    """The bank of each tile in the second half of ``ranges``, by the name of its site."""
    offsets = rotated(ranges, BANK, count)
    assert offsets is not None
    banks: dict[str, list[int]] = {}
    for live, offset in list(zip(ranges, offsets, strict=True))[len(ranges) // 2 :]:
        banks.setdefault(live.tensor.name.partition(".")[0], []).append(offset // BANK)
    return banks


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)), min_size=1, max_size=80))
def test_tiles_in_turn_do_not_share_a_bank_while_both_are_live(drawn: list[tuple[int, int]]) -> None:
    ranges = sorted(
        (named(f"t{i % 5}.{i}", first, first + more) for i, (first, more) in enumerate(drawn)),
        key=lambda live: live.first,
    )
    banks = peak_pressure(ranges)[0] // BANK
    offsets = rotated(ranges, BANK, banks)
    assert offsets is not None
    for i, live in enumerate(ranges):
        assert offsets[i] % BANK == 0 and offsets[i] < banks * BANK
        assert all(offsets[j] != offsets[i] or other.last < live.first for j, other in enumerate(ranges[:i]))
    assert rotated(ranges, BANK, banks - 1) is None
    assert rotated(ranges, BANK - 1, banks) is None


def test_sites_take_turns_in_banks_of_their_own() -> None:
    """Iterations make a score and then many transposes: the next score does not wait for the last transposes."""
    ranges: list[LiveRange] = []
    for i in range(12):
        ranges.append(named(f"score.{i}", 20 * i, 20 * i + 1))
        ranges += [named(f"turned.{8 * i + j}", 20 * i + 2 + 2 * j, 20 * i + 3 + 2 * j) for j in range(8)]
    banks = {site: set(used) for site, used in banks_of(ranges, 8).items()}
    assert not banks["score"] & banks["turned"]
    assert len(banks["score"]) == 3 and len(banks["turned"]) == 5


def scores(iterations: int, at_once: int, turned: int) -> list[LiveRange]:
    """Each iteration makes ``at_once`` scores, uses them one by one, then transposes the results one by one."""
    ranges: list[LiveRange] = []
    for i in range(iterations):
        start = i * (2 * at_once + 2 * turned + 2)
        ranges += [named(f"score.{i * at_once + j}", start + j, start + at_once + j) for j in range(at_once)]
        start += 2 * at_once
        ranges += [named(f"turned.{i * turned + j}", start + 2 * j, start + 2 * j + 1) for j in range(turned)]
        ranges.append(named(f"sum.{i}", start + 2 * turned, start + 2 * turned + 1))
    return ranges


def test_banks_that_do_not_divide_among_the_sites_are_used() -> None:
    """Two banks are left for three sites: both go to the site where tiles follow each other fastest."""
    banks = banks_of(scores(12, 4, 16), 8)
    assert len(set(banks["turned"])) == 3 and len(set(banks["score"])) == 4
    assert all(one != two for one, two in zip(banks["turned"], banks["turned"][1:], strict=False))


def test_a_stream_borrows_banks_that_others_need_at_another_time() -> None:
    """Eight scores take all banks; the transposes behind them do not take turns in a single one."""
    ranges = scores(12, 8, 16)
    banks = banks_of(ranges, 8)
    assert len(set(banks["turned"][-16:])) == 3
    assert len(set(banks["score"][-8:])) == 8
    assert not set(banks["turned"][-32:-16]) & set(banks["score"][-8:-4]), "a score waits for transposes just before it"


def _psum(columns, dtype=nl.float32):
    return nl.ndarray((P, columns), dtype=dtype, buffer=nl.psum)


@nki.jit
def turned_products(x, y, by_function=False):
    """Each 128 rows of ``x`` times ``y``, in pieces of 512 columns that are all in use at once; then transposed.

    ``by_function``: a function makes all tiles of PSUM, at one place.
    """
    out = nl.ndarray((x.shape[1], P), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(x), nl.load(y)
    pieces = range(0, y.shape[1], 512)
    for row in range(0, x.shape[1], P):
        products = [_psum(512) if by_function else nl.ndarray((P, 512), nl.float32, nl.psum) for _ in pieces]
        greatest, bias = tile(len(products)), tile(1)
        for number, column in enumerate(pieces):
            nisa.nc_matmul(
                dst=products[number], stationary=left[:, row : row + P], moving=right[:, column : column + 512]
            )
            nisa.tensor_reduce(dst=greatest[:, number : number + 1], op=nl.maximum, data=products[number], axis=1)
        nisa.tensor_reduce(dst=bias, op=nl.maximum, data=greatest, axis=1, negate=True)
        weights = tile(y.shape[1], nl.bfloat16)
        for number, column in enumerate(pieces):
            nisa.activation(dst=weights[:, column : column + 512], op=nl.exp, data=products[number], bias=bias)
        total = _psum(P) if by_function else nl.ndarray((P, P), nl.float32, nl.psum)
        for column in range(0, y.shape[1], P):
            turned = _psum(P, nl.bfloat16) if by_function else nl.ndarray((P, P), nl.bfloat16, nl.psum)
            kept = tile(P, nl.bfloat16)
            nisa.nc_transpose(dst=turned, data=weights[:, column : column + P])
            nisa.tensor_copy(dst=kept, src=turned)
            nisa.nc_matmul(dst=total, stationary=kept, moving=right[:, column : column + P])
        nl.store(out[row : row + P], nl.copy(total))
    return out


def seconds(target: str, columns: int, **options: bool) -> float:
    arguments = ShapeDtype((P, 1024), "bfloat16"), ShapeDtype((P, columns), "bfloat16")
    return profile(turned_products, target=target)(*arguments, **options).device_time


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_time_per_product_does_not_jump_where_the_banks_get_scarce(target: str) -> None:
    """512 columns more take as long at 1,024 columns, where banks are left, as at 4,096, where scores need them all."""
    least = seconds(target, 1024) / 1024
    many = (1536, 2048, 2560, 3072, 3584, 4096)
    assert all(seconds(target, columns) / columns < 1.25 * least for columns in many)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_function_that_makes_the_tiles_costs_no_time(target: str) -> None:
    """Scores and transposes are sites of their own, though one line of a function makes them all."""
    assert seconds(target, 1024, by_function=True) == seconds(target, 1024)


def test_more_sites_than_are_told_apart_by_their_calls_fall_back_to_their_places() -> None:
    ranges = [named(f"tile.{i}", 2 * i, 2 * i + 1) for i in range(600)]
    once = rotated(ranges, BANK, 8)
    for i, live in enumerate(ranges):
        live.tensor.site = (i,)
    assert rotated(ranges, BANK, 8) == once is not None
