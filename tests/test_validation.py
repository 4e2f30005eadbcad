"""The model against published times, within the errors that the project promises. ``make validate`` runs them all."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from nki.target import GEN2
from validation.cases import CASES, Case
from validation.microcases import MICROCASES, Microcase
from validation.page import KernelRow, instruction_row, kernel_row, summary

ROOT = Path(__file__).parent.parent

UNEXPLAINED = {"2048^3, tiled, bf16", "2048^3, tiled, transposed on chip, bf16"}
"""Kernels that were faster than one generator of descriptors allows for all their loads; the interval holds them."""
LONG = "tutorial"
"""Kernels of 40,000 instructions and more."""


@pytest.mark.parametrize("case", MICROCASES, ids=lambda case: f"{case.target} {case.name} {case.quantity}")
def test_instructions_and_transfers(case: Microcase) -> None:
    assert abs(case.error) <= 0.05


@pytest.mark.parametrize("case", [case for case in CASES if LONG not in case.name], ids=lambda case: case.name)
def test_kernels(case: Case) -> None:
    times = case.times()
    least, most = times.interval
    if case.name in UNEXPLAINED:
        assert least <= case.measured[0] <= most
    else:
        assert abs(case.error(times.predicted)) <= 0.1
    assert least <= times.predicted <= most
    assert case.error(least) <= 0.06 and case.error(most) >= -0.06


def test_the_page_says_how_far_a_time_is_from_the_interval() -> None:
    case = next(case for case in CASES if case.name.startswith("exp of 128"))
    least, most = case.times().interval
    for seconds, outside in ((0.5 * least, 1.0), (least, 0.0), (most, 0.0), (2 * most, 0.5)):
        row = kernel_row(replace(case, measured=(seconds, seconds)))
        assert row.outside == pytest.approx(outside)
        assert row.width == pytest.approx((most - least) / case.times().predicted)


def test_families_have_their_coverage_and_their_width_beside_the_error() -> None:
    rows = [KernelRow("", error, 0.5, outside, width) for error, outside, width in ((-0.1, 0.0, 0.2), (0.3, 0.1, 0.4))]
    *_, one, two = summary({"both": rows, "first": rows[:1]})
    assert one == "| both | 2 | 20.0% | 1 (50%) | 30% |"
    assert two == "| first | 1 | 10.0% | 1 (100%) | 20% |"
    page = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    for family in {case.family for case in CASES}:
        assert f"\n| {family} | {sum(case.family == family for case in CASES)} | " in page


def test_a_span_from_the_first_descriptors_leaves_their_generation_out() -> None:
    case = next(case for case in CASES if case.span == "descriptors")
    profile = case.profile()
    assert profile.device_time - case.times().predicted == pytest.approx(GEN2.dma_software_trigger_ns * 1e-9)
    assert replace(case, span="kernel").times().predicted == profile.device_time
    assert replace(case, span="benchmark").times().predicted == profile.latency
    assert replace(case, span="benchmark").times().interval == pytest.approx(profile.interval)


def test_the_readme_tells_the_errors_of_the_page() -> None:
    page = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    found = re.search(r"^Of (\d+) kernels the median error is ([\d.]+%), the greatest ([\d.]+%)\.$", page, re.MULTILINE)
    assert found is not None and int(found[1]) == len(CASES)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"of {found[1]} kernels the median error is {found[2]}, the greatest {found[3]}." in readme


def test_the_page_holds_the_predictions_of_today() -> None:
    """Of the short kernels and all instructions; ``make validate`` writes the page."""
    page = (ROOT / "docs" / "validation.md").read_text(encoding="utf-8")
    assert all(instruction_row(case) in page for case in MICROCASES)
    assert all(kernel_row(case).text in page for case in CASES if "launches" in case.family)


def test_the_products_of_trn2_are_in_the_right_order() -> None:
    square = [case for case in CASES if case.name.startswith("4096^3")]
    assert len(square) == 3
    predicted = sorted(square, key=lambda case: case.times().predicted)
    assert predicted == sorted(square, key=lambda case: case.measured)
