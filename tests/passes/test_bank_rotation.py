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

BANK, P = 2048, 128


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


@nki.jit
def turned_products(x, y):
    """Each 128 rows of ``x`` times ``y``, in pieces of 512 columns that are all in use at once; then transposed."""
    result = nl.ndarray((x.shape[1], P), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    right = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=y)
    pieces = range(0, y.shape[1], 512)
    for row in range(0, x.shape[1], P):
        products = [nl.ndarray((P, 512), dtype=nl.float32, buffer=nl.psum) for _ in pieces]
        greatest = nl.ndarray((P, len(products)), dtype=nl.float32, buffer=nl.sbuf)
        for number, column in enumerate(pieces):
            nisa.nc_matmul(
                dst=products[number], stationary=left[:, row : row + P], moving=right[:, column : column + 512]
            )
            nisa.tensor_reduce(dst=greatest[:, number : number + 1], op=nl.maximum, data=products[number], axis=1)
        bias = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=bias, op=nl.maximum, data=greatest, axis=1, negate=True)
        weights = nl.ndarray((P, y.shape[1]), dtype=nl.bfloat16, buffer=nl.sbuf)
        for number, column in enumerate(pieces):
            nisa.activation(dst=weights[:, column : column + 512], op=nl.exp, data=products[number], bias=bias)
        total = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
        for column in range(0, y.shape[1], P):
            flipped = nl.ndarray((P, P), dtype=nl.bfloat16, buffer=nl.psum)
            kept = nl.ndarray((P, P), dtype=nl.bfloat16, buffer=nl.sbuf)
            nisa.nc_transpose(dst=flipped, data=weights[:, column : column + P])
            nisa.tensor_copy(dst=kept, src=flipped)
            nisa.nc_matmul(dst=total, stationary=kept, moving=right[:, column : column + P])
        done = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=done, src=total)
        nisa.dma_copy(dst=result[row : row + P, :], src=done)
    return result


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_time_per_product_does_not_jump_where_the_banks_get_scarce(target: str) -> None:
    """512 columns more take as long at 1,024 columns, where banks are left, as at 4,096, where scores need them all."""

    def seconds(columns: int) -> float:
        arguments = ShapeDtype((P, 1024), "bfloat16"), ShapeDtype((P, columns), "bfloat16")
        return profile(turned_products, target=target)(*arguments).device_time / columns

    least = seconds(1024)
    assert all(seconds(columns) < 1.25 * least for columns in (1536, 2048, 2560, 3072, 3584, 4096))


def _psum(columns, dtype):
    return nl.ndarray((P, columns), dtype=dtype, buffer=nl.psum)


def _sbuf(columns, dtype):
    return nl.ndarray((P, columns), dtype=dtype, buffer=nl.sbuf)


@nki.jit
def attention(q, k, v, by_functions=False):
    """Attention, its sums not inverted; ``by_functions``: functions make the tiles, at two places for all."""
    length, size = v.shape
    result = nl.ndarray((length, size), dtype=q.dtype, buffer=nl.shared_hbm)
    queries, keys = (nl.ndarray(q.shape, dtype=q.dtype, buffer=nl.sbuf) for _ in range(2))
    values = nl.ndarray((P, length // P, size), dtype=v.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=queries, src=q)
    nisa.dma_copy(dst=keys, src=k)
    for j in range(length // P):
        nisa.dma_copy(dst=values[:, j, :], src=v[j * P : j * P + P, :])
    for row in range(0, length, P):
        score, weights = _sbuf(length, nl.float32), _sbuf(length, q.dtype)
        greatest, total = _sbuf(1, nl.float32), _sbuf(1, nl.float32)
        for j in range(0, length, 512):
            part = _psum(512, nl.float32) if by_functions else nl.ndarray((P, 512), nl.float32, nl.psum)
            nisa.nc_matmul(dst=part, stationary=queries[:, row : row + P], moving=keys[:, j : j + 512])
            nisa.activation(dst=score[:, j : j + 512], op=nl.copy, data=part)
        nisa.tensor_reduce(dst=greatest, op=nl.maximum, data=score, axis=1, negate=True)
        nisa.activation_reduce(dst=weights, op=nl.exp, data=score, bias=greatest, reduce_op=nl.add, reduce_res=total)
        out = _psum(size, nl.float32) if by_functions else nl.ndarray((P, size), nl.float32, nl.psum)
        for j in range(0, length, P):
            turned = _psum(P, q.dtype) if by_functions else nl.ndarray((P, P), q.dtype, nl.psum)
            kept = _sbuf(P, q.dtype)
            nisa.nc_transpose(dst=turned, data=weights[:, j : j + P])
            nisa.tensor_copy(dst=kept, src=turned)
            nisa.nc_matmul(dst=out, stationary=kept, moving=values[:, j // P, :])
        done = _sbuf(size, q.dtype)
        nisa.tensor_scalar(dst=done, data=out, op0=nl.multiply, operand0=total)
        nisa.dma_copy(dst=result[row : row + P, :], src=done)
    return result


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_a_function_that_makes_the_tiles_costs_no_time(target: str) -> None:
    """Scores and transposes are sites of their own, though one line of a function makes them all."""
    arguments = [ShapeDtype(shape, "bfloat16") for shape in ((P, 1024), (P, 1024), (1024, P))]
    inline, called = (
        profile(attention, target=target)(*arguments, by_functions=called).device_time for called in (False, True)
    )
    assert called == inline


def test_more_sites_than_are_told_apart_by_their_calls_fall_back_to_their_places() -> None:
    ranges = [named(f"tile.{i}", 2 * i, 2 * i + 1) for i in range(600)]
    once = rotated(ranges, BANK, 8)
    for i, live in enumerate(ranges):
        live.tensor.site = (i,)
    assert rotated(ranges, BANK, 8) == once is not None
