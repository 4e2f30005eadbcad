"""What a compiler of Beta 1 may do: invariants once, broadcasts read in PSUM, neighbours in one instruction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import neuronxcc.nki.isa as n1
import neuronxcc.nki.language as b1
import nki
import nki.isa as nisa
import nki.language as nl
from neuronxcc import nki as beta1
from nki.profiling import text
from nki.profiling.assumptions import BROADCASTS, INVARIANTS, NEIGHBOURS, ON_SCALAR, Assumption
from nki.profiling.kernel_profile import Profile
from nki.target import GEN2, GEN3

P, COUNT = 128, 6


def profiled(kernel: Any, *shapes: tuple[int, ...], target: str = "trn1", **options: Any) -> Profile:
    return nki.profile(kernel, target=target)(*(nki.ShapeDtype(shape, "float32") for shape in shapes), **options)


def found(profile: Profile, name: str) -> Assumption:
    assumption = profile.assumption(name)
    assert assumption is not None
    return assumption


def part(profile: Profile, name: str) -> float:
    return next(worth.part for worth in profile.worths if worth.assumption.name == name)


@beta1.jit
def scans(x, y, differ=False):
    """A product of the same tiles in each iteration, and a scan that differs."""
    out = b1.ndarray((COUNT, *x.shape), dtype=x.dtype, buffer=b1.shared_hbm)
    one, two = b1.load(x), b1.load(y)
    for turn in b1.affine_range(COUNT):
        product = n1.tensor_tensor(one, two, op=nl.multiply)
        if differ:
            product = n1.tensor_scalar(product, nl.multiply, float(turn + 2))
        b1.store(out[turn], n1.tensor_scalar(product, nl.add, float(turn)))
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_a_product_that_each_iteration_repeats_runs_once(target: str) -> None:
    profile = profiled(scans, (P, 512), (P, 512), target=target)
    assert found(profile, INVARIANTS).instructions == COUNT - 1
    assert found(profiled(scans, (P, 512), (P, 512), target=target, differ=True), INVARIANTS).instructions == COUNT - 1
    busy = 512 * 2 / GEN2.vector_clock_ghz * (COUNT - 1) * 1e-9
    if target == "trn1":  # Vector has most to do there
        worth = next(each for each in profile.worths if each.assumption.name == INVARIANTS)
        assert worth.seconds == pytest.approx(busy, rel=0.3)


def test_sums_and_other_data_are_no_invariants() -> None:
    """A tile that is cleared again holds the same at first, and not when it is read."""

    @beta1.jit
    def kernel(x):
        out = b1.ndarray((COUNT, P, 1), dtype=x.dtype, buffer=b1.shared_hbm)
        for turn in b1.affine_range(COUNT):
            total = b1.zeros((P, 1), dtype=x.dtype)
            for column in b1.affine_range(2):
                total += b1.load(x[0:P, b1.ds(2 * turn + column, 1)])
            b1.store(out[turn], total)
        return out

    assert profiled(kernel, (P, 2 * COUNT)).assumption(INVARIANTS) is None


@beta1.jit
def spread(x, rows, multiplied=False):
    """Each of ``rows`` on all partitions, times ``x``; ``multiplied``: a product reads it, too."""
    out = b1.ndarray((rows.shape[0], *x.shape), dtype=x.dtype, buffer=b1.shared_hbm)
    tile = b1.load(x)
    for turn in b1.affine_range(rows.shape[0]):
        row = b1.load(rows[b1.ds(turn, 1), 0 : rows.shape[1]]).broadcast_to(x.shape)
        made = n1.tensor_tensor(tile, row, op=nl.multiply)
        if multiplied:
            made = b1.copy(b1.matmul(row[0:P, 0:P], made, transpose_x=True))
        b1.store(out[turn], made)
    return out


def test_a_repeated_row_is_read_in_psum() -> None:
    """On trn1 a tile in PSUM and one in SBUF take a cycle for each element, two in SBUF take two."""
    profile = profiled(spread, (P, 512), (COUNT, 512))
    broadcast = found(profile, BROADCASTS)
    assert broadcast.instructions == COUNT
    scalar = [use.busy for use in profile.engines if use.engine == "scalar"]
    timeline = broadcast.run(profile.target)
    (core,) = timeline.cores
    vector = [e.occupancy for i, e in zip(core.core.numbered, core.estimates, strict=True) if i.queue == "vector"]
    before = [e.occupancy for e in profile.timeline.cores[0].estimates if e.resource == "vector"]
    assert sum(before) - sum(vector) == pytest.approx(COUNT * 512 / GEN2.vector_clock_ghz)
    copies = [e for i, e in zip(core.core.numbered, core.estimates, strict=True) if i.queue == "scalar"]
    assert scalar and sum(e.occupancy for e in copies) == 0
    assert part(profile, BROADCASTS) > 0


def test_a_row_that_a_product_reads_has_to_be_in_sbuf() -> None:
    assert profiled(spread, (P, 512), (COUNT, 512), multiplied=True).assumption(BROADCASTS) is None


@beta1.jit
def scaled(x, count, columns=512, engine=None, inverse=False):
    """``count`` tiles, each times a number, or each inverted."""
    out = b1.ndarray((count, *x.shape), dtype=x.dtype, buffer=b1.shared_hbm)
    tile = b1.load(x)
    for turn in b1.affine_range(count):
        if inverse:
            made = n1.reciprocal(tile)
        elif engine is None:
            made = n1.tensor_scalar(tile, nl.multiply, float(turn + 2))
        else:
            made = n1.tensor_scalar(tile, nl.multiply, float(turn + 2), engine=engine)
        b1.store(out[turn], made)
    return out


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_scalar_takes_products_until_it_has_as_much_to_do(target: str) -> None:
    profile = profiled(scaled, (P, 512), target=target, count=12)
    moved = found(profile, ON_SCALAR)
    before = {use.engine: use.busy for use in profile.engines}
    (core,) = moved.run(profile.target).cores
    taken = [e for i, e in zip(core.core.numbered, core.estimates, strict=True) if e.resource == "scalar"]
    assert len(taken) == moved.instructions and 4 <= moved.instructions <= 8
    rest = [e for e in core.estimates if e.resource == "vector"]
    assert sum(e.occupancy for e in taken) <= sum(e.occupancy for e in rest) + max(e.occupancy for e in taken)
    assert before.get("scalar", 0.0) == 0.0 and len(taken) + len(rest) == 12


def test_reciprocals_of_rows_are_a_function_of_scalar() -> None:
    """On trn1 Vector takes eight cycles for an element, Scalar one."""
    profile = profiled(scaled, (P, 512), count=12, inverse=True)
    assert found(profile, ON_SCALAR).instructions == 11
    both = (replace(found(profile, name), facts={}).run(GEN2.bound(0)).ns for name in (INVARIANTS, ON_SCALAR))
    before, after = both
    assert after < 0.85 * before, "where software on GpSimd makes the descriptors; static ones leave Vector idle"
    assert profiled(scaled, (P, 32), count=12, inverse=True).assumption(ON_SCALAR) is None, "Vector is as fast"


def test_an_engine_that_the_kernel_names_stays() -> None:
    assert profiled(scaled, (P, 512), count=12, engine=n1.vector_engine).assumption(ON_SCALAR) is None


@beta1.jit
def turned(x, count=4, columns=P):
    """Transposes of ``count`` tiles, each copied out of PSUM."""
    out = b1.ndarray((count, columns, P), dtype=x.dtype, buffer=b1.shared_hbm)
    tiles = b1.load(x)
    for number in b1.affine_range(count):
        part = n1.nc_transpose(tiles[0:P, b1.ds(number * columns, columns)])
        b1.store(out[number], b1.copy(part))
    return out


@pytest.mark.parametrize(("count", "joined"), [(1, 0), (2, 1), (4, 3), (5, 3), (8, 6)])
def test_four_transposes_leave_psum_in_one_copy(count: int, joined: int) -> None:
    """A bank of PSUM has room for 512 columns of float32: four of 128."""
    profile = profiled(turned, (P, count * P), target="trn2", count=count)
    merged = profile.assumption(NEIGHBOURS)
    assert (merged.instructions if merged else 0) == joined


def test_a_merged_instruction_has_one_issue() -> None:
    profile = profiled(turned, (P, 4 * P), target="trn2")
    merged = found(profile, NEIGHBOURS)
    before, after = profile.timeline.cores[0].estimates, merged.run(GEN3).cores[0].estimates
    changed = [(one, two) for one, two in zip(before, after, strict=True) if one is not two]
    assert len(changed) == 3
    for one, two in changed:
        assert one.occupancy - two.occupancy >= GEN3.vector_issue_cycles / GEN3.vector_clock_ghz * (1 - 1e-9)
        assert two.occupancy == two.streaming > 0


def test_what_needs_its_neighbour_is_no_part_of_it() -> None:
    @beta1.jit
    def kernel(x):
        out = b1.ndarray(x.shape, dtype=x.dtype, buffer=b1.shared_hbm)
        tile = b1.load(x)
        for _ in range(COUNT):
            tile = n1.tensor_scalar(tile, nl.multiply, 2.0)
        b1.store(out, tile)
        return out

    assert profiled(kernel, (P, 16)).assumption(NEIGHBOURS) is None


def test_later_releases_are_compiled_as_they_are_written() -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((COUNT, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x)
        for turn in range(COUNT):
            made = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(dst=made, data=tile, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=out[turn], src=made)
        return out

    names = {each.name for each in profiled(kernel, (P, 64)).assumptions}
    assert names == {"order", "static descriptors", "software descriptors", "hardware descriptors"}


def test_reports_name_and_count_them() -> None:
    profile = profiled(scans, (P, 512), (P, 512))
    row = next(row for row in text.about_assumptions(profile) if row.startswith(INVARIANTS))
    assert f"{COUNT - 1} instructions less" in row and "at times" in row
    assert row in " ".join(str(profile).split())
    assert profile.what_if(launch=0).interval[0] < profile.interval[0]
