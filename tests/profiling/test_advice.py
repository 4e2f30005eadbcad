"""Advice: each planted inefficiency is named, is worth what its removal saves, and is not named where it is not."""

from __future__ import annotations

from typing import Any

import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.profiling.advice import SERIAL_LOOP, Advice
from nki.profiling.kernel_profile import Profile
from nki.profiling.metrics import LEAST_WORTH
from nki.profiling.suggestions.transfers import NoDoubleBuffers
from nki.target import GEN2
from tests.profiling import flawed_beta1_kernels as beta1
from tests.profiling import flawed_kernels as kernels
from tests.profiling import flawed_rounds
from tests.profiling import kernels as loops
from tests.profiling.flaws import (
    CLOCK,
    FEW,
    FLAWS,
    GENERATOR,
    LONG,
    MOVES,
    NARROW,
    RELOADS,
    ROWS,
    SHORT,
    Flaw,
)
from tests.profiling.kernels import profiled, shape
from validation import matmul

RUNS = [(flaw, target) for flaw in FLAWS for target in flaw.targets]


def titles(profile: Profile) -> list[str]:
    certain = [advice for advice in profile.advice if not advice.condition]
    worth = [advice.seconds for advice in certain]
    assert worth == sorted(worth, reverse=True)
    assert all(advice.seconds >= LEAST_WORTH * profile.latency for advice in profile.advice)
    assert all(advice.evidence and advice.remedy for advice in profile.advice)
    return [advice.title for advice in certain]


def worth_its_removal(title: str, flawed: Profile, mended: Profile) -> Advice:
    """The advice of a flawed kernel, which is worth what its removal saves, and which the mended one does not get."""
    assert title in titles(flawed) and title not in titles(mended)
    advice = next(advice for advice in flawed.advice if advice.title == title)
    gain = flawed.latency - mended.latency
    assert gain / 1.5 <= advice.seconds <= gain * 1.5
    return advice


def checked(flaw: Flaw, flawed: Profile, mended: Profile) -> None:
    """The advice is worth what its removal saves, and the mended kernel does not get it."""
    assert flawed.latency - mended.latency > LEAST_WORTH * flawed.latency
    advice = worth_its_removal(flaw.title, flawed, mended)
    assert all(span.file == flaw.kernel.__code__.co_filename for span in advice.lines)


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize(
    ("flaw", "target"), RUNS, ids=[f"{flaw.title}-{flaw.kernel.__name__}-{target}" for flaw, target in RUNS]
)
def test_a_planted_flaw(flaw: Flaw, target: str, case: int) -> None:
    flawed, mended = (profiled(flaw.kernel, *each, target=target, cores=flaw.cores) for each in flaw.arguments(case))
    checked(flaw, flawed, mended)
    if case == 0:
        assert {*titles(flawed)} <= {flaw.title, *flaw.also, *MOVES}
        assert {*titles(mended)} <= {*flaw.still, *MOVES}


def test_a_load_that_reads_everything_has_no_short_rows() -> None:
    """64 columns are all that there are, so that no transfer could bring more."""
    assert titles(profiled(kernels.scale, shape(128, 64), 64)) == []
    assert titles(profiled(kernels.scale, shape(128, 128), 64))[0] == SHORT


def test_one_load_of_each_table_is_no_swap() -> None:
    once = profiled(kernels.activations, shape(128, 1024), 1)
    assert "Swaps of activation tables" not in titles(once)
    flawed = profiled(kernels.activations, shape(128, 8192), 1)
    advice = next(advice for advice in flawed.advice if "tables" in advice.title)
    assert advice.evidence.startswith("14 activations follow one that needs another of 2 tables")


def test_a_cold_clock_is_no_flaw() -> None:
    """Products without a gap run at a throttled clock until the first window is over."""
    mended = profiled(kernels.sums_of_products, shape(128, 1024), shape(128, 512))
    assert sum(use.throttled for use in mended.engines) > 0 and CLOCK not in titles(mended)


def test_the_clock_of_products_with_gaps() -> None:
    arguments = shape(128, 512), shape(128, 128)
    flawed = profiled(kernels.powers, *arguments)
    advice = next(advice for advice in flawed.advice if advice.title == CLOCK)
    gain = flawed.latency - flawed.what_if(tensor_throttle_fraction=1.0).latency
    assert 0.7 * gain < advice.seconds <= gain
    assert CLOCK not in titles(profiled(kernels.powers, *arguments, target="trn1"))
    assert GEN2.tensor_throttle_fraction == 1.0


def test_the_advice_names_tensors_and_lines() -> None:
    profile = profiled(matmul.tiled, *[shape(1024, 1024)] * 2)
    again = next(advice for advice in profile.advice if advice.title == "Inputs loaded again")
    assert "'lhsT', 'rhs'" in again.evidence and again.lines[0].file.endswith("matmul.py")


@nki.jit
def row_of_an_index(x, index):
    """The row of ``x`` that ``index`` names, which a register holds."""
    result = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    number = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    row = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=number, src=index)
    register = nisa.register_alloc()
    nisa.register_load(register, number)
    nisa.dma_copy(dst=row, src=x.ap([[x.shape[1], 1], [1, x.shape[1]]], scalar_offset=register))
    nisa.dma_copy(dst=result, src=row)
    return result


def test_a_load_whose_memory_is_free_waits_for_its_index_all_the_same() -> None:
    profile = nki.profile(row_of_an_index, target="trn2")(shape(128, 512), shape(1, 1, dtype="int32"))
    change = NoDoubleBuffers(profile.target)
    timeline = change.timed(profile)
    assert timeline is not None and timeline.ns == profile.timeline.ns and len(change.affected) == 2


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_gathered_rows_cannot_be_longer_and_have_one_generator(target: str) -> None:
    """A row of the table is all that an index names, and only software follows indices (descriptor guide)."""
    profile = profiled(kernels.gathered, shape(4096, 128), shape(128, 16, dtype="uint32"), target=target)
    assert profile.lower_bound.resource == "descriptors (gpsimd)"
    assert GENERATOR not in titles(profile)
    short = [advice for advice in profile.advice if advice.title == SHORT]
    assert all(advice.evidence.startswith("16 transfers") for advice in short)  # the stores


def test_no_more_iterations_overlap_than_a_loop_has() -> None:
    profile = profiled(loops.exponentials_in_turn, shape(256, 4096), False)
    (advice,) = (each for each in profile.advice if each.title == SERIAL_LOOP)
    assert advice.evidence.startswith("each of 2 iterations") and "; 2 that overlap take" in advice.evidence


def test_a_loop_whose_iterations_need_each_other_cannot_overlap() -> None:
    assert SERIAL_LOOP not in titles(loops.profiled_sum())


def test_copies_that_others_wait_for_do_not_gain_by_another_engine() -> None:
    """Each step of the loop needs the one before: Scalar takes about as long as Vector for the same copy."""
    profile = profiled(kernels.product_in_a_loop, shape(128, 512), 50)
    assert "Sums leave PSUM through the busiest engine" not in titles(profile)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_bytes_within_hbm_are_moved_once(target: str) -> None:
    """The DMA engines read and write each byte, and have no more than their rate."""
    profile = profiled(kernels.copies_within_hbm, shape(8192, 2048), target=target)
    assert profile.bytes["hbm_read"] == profile.bytes["hbm_write"] == 8192 * 2048 * 2
    assert 0.9 < profile.mbu < 1


def test_a_clock_that_idle_rows_keep_slow() -> None:
    """Products of 64 rows keep half of the array busy; those in both halves of it, side by side, the whole."""
    arguments = shape(128, 128), shape(128, 512)
    half, tiled = (profiled(kernels.products_of_half, *arguments, parts) for parts in (False, True))
    advice = next(advice for advice in half.advice if advice.title == CLOCK)
    assert "products use 50% of it" in advice.evidence and "tile_position" in advice.remedy
    assert CLOCK not in titles(tiled)
    trn1 = profiled(kernels.products_of_half, *arguments, False, target="trn1")
    assert ROWS in titles(trn1) and CLOCK not in titles(trn1)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize(
    ("title", "kernel", "flawed", "mended", "words"),
    [
        (SHORT, beta1.doubled, (LONG, 64), (LONG, 2048), "nl.load or nl.store"),
        (NARROW, beta1.exponential, (shape(1024, 2048), 16), (shape(1024, 2048), 128), "take more rows at once"),
        (RELOADS, beta1.divided_by_sums, (shape(256, 8192), False), (shape(256, 8192), True), "keep the tile in SBUF"),
    ],
)
def test_a_planted_flaw_in_a_kernel_of_beta_1(
    title: str, kernel: Any, flawed: Any, mended: Any, words: str, target: str
) -> None:
    first, second = (profiled(kernel, *each, target=target) for each in (flawed, mended))
    assert worth_its_removal(title, first, second) is first.advice[0]
    assert words in first.advice[0].remedy and first.advice[0].lines[0].file == beta1.__file__


@pytest.mark.parametrize(
    ("title", "flawed", "mended"),
    [
        (SHORT, (shape(256, 8192), 64, 128, True), (shape(256, 8192), 2048, 128, True)),
        (NARROW, (shape(2048, 2048), 2048, 16, True), (shape(2048, 2048), 2048, 128, True)),
    ],
)
def test_a_planted_flaw_on_two_cores(title: str, flawed: Any, mended: Any) -> None:
    first, second = (profiled(kernels.scale_on_cores, *each, cores=2) for each in (flawed, mended))
    assert worth_its_removal(title, first, second) is first.advice[0]


def test_remedies_are_those_of_the_target() -> None:
    """trn1 has no hardware that generates descriptors."""
    for target, words in (("trn1", "nisa.dge_mode.none"), ("trn2", "nisa.dge_mode.hwdge")):
        profile = profiled(kernels.scale, LONG, 64, target=target)
        advice = next(advice for advice in profile.advice if advice.title == GENERATOR)
        assert words in advice.remedy


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize(("tokens", "size"), [(8, 4), (16, 8), (4, 4)])
def test_no_more_partitions_where_there_are_no_more_rows(tokens: int, size: int, target: str) -> None:
    """Each row of a small matrix is divided by its sum: all elements fit one instruction as they are."""
    profile = profiled(flawed_rounds.divided_by_sums, shape(tokens, size * size, dtype="float32"), 20, target=target)
    found = titles(profile)
    assert NARROW not in found and FEW in found


@pytest.mark.parametrize("target", ["trn2", "trn3"])
@pytest.mark.parametrize(
    ("kernel", "title", "words", "cases"),
    [
        (
            flawed_rounds.every_second_column,
            SHORT,
            "step on chip: tile[:, ::2]",
            [(shape(128, 8192, dtype="float32"),), (shape(128, 4096),), (shape(64, 16384, dtype="float32"),)],
        ),
        (
            flawed_rounds.turned_by_dma,
            SHORT,
            "move more rows in one nisa.dma_transpose",
            [(shape(2048, 2048, dtype="float32"),), (shape(4096, 128),), (shape(1024, 512),)],
        ),
        (
            flawed_rounds.rows_by_index,
            NARROW,
            "x.vector_select(0, column)",
            [
                (shape(4096, columns, dtype=dtype), shape(1, 128, dtype="int32"), shape(128, 1, dtype="uint32"))
                for columns, dtype in ((512, "float32"), (1024, "bfloat16"), (256, "float32"))
            ],
        ),
    ],
)
def test_remedies_are_those_of_the_way_in_which_rows_are_short(
    kernel: Any, title: str, words: str, cases: Any, target: str
) -> None:
    for arguments in cases:
        flawed, mended = (profiled(kernel, *arguments, better, target=target) for better in (False, True))
        advice = worth_its_removal(title, flawed, mended)
        assert words in advice.remedy and "nisa.dma_copy" not in advice.remedy


def test_rows_by_index_cannot_be_one_transfer_where_no_dma_has_an_index_for_each() -> None:
    arguments = shape(4096, 512), shape(1, 128, dtype="int32"), shape(128, 1, dtype="uint32"), False
    profile = profiled(flawed_rounds.rows_by_index, *arguments, target="trn1")
    assert not any("vector_select" in advice.remedy for advice in profile.advice)


def test_a_row_that_is_repeated_has_no_more_rows() -> None:
    """Each transfer loads one row for 32 partitions, and the tensor has others, which do not belong below them."""
    profile = profiled(flawed_rounds.rows_repeated, shape(16, 2048, dtype="float32"), 32)
    assert all("'x'" not in advice.evidence for advice in profile.advice if advice.title == NARROW)
