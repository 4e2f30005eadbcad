"""The page docs/validation.md: every published time that the project holds, beside the model's and a roofline's."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from validation.cases import CASES, Case
from validation.microcases import MICROCASES, Microcase

_HEAD = """# Validation of the timing model

`make validate` writes this page. Every published time that the project holds stands beside the prediction of
[`nki.profile`](profiling.md). An error is 0 where the prediction lies within what was measured; otherwise it counts
from the nearer end. Each fact of the [targets](reference/targets.md) has a source of its own. Where a case below is
that source, it tests the form of the model and not its reach. That is so for all instructions and transfers. Of the
kernels it is so for "512 products of four shapes", from which the model takes that idle rows of the array keep the
clock throttled, and for the launches on inf2, from which it takes that the second load of a launch stands still at
first. The published counters of "4096^3, tiled" show each tile of one operand loaded three times where the kernel
says eight: the vendor's compiler left loads out. The model runs the kernel as it is written, so that row says
little about the rate of loads. Of the two products of 2048 no such counters are published. Their 2,112 transfers
take longer than the whole kernels did if one generator makes all descriptors, in 540 ns or more for each: loads
were left out, or generators shared them. The interval holds all guesses about the hardware and what [another
compiler may do](profiling.md#what-another-compiler-may-do): the order of the program at the slow end, and no load
of rows that SBUF still holds at the fast end. Its width counts as a part of the prediction: the smaller the better,
as long as the measured times are inside. A time is the kernel's, from its first instruction to its last result.
Times of inf2 begin when the descriptors of the first load are complete, because these profiles show a software DMA
at that moment: 648 ns later. Latencies of other kernels are kept aside to judge the model, and are not shown here.
"""


def page() -> Iterator[str]:
    """The lines of the page."""
    yield _HEAD
    yield "## Kernels\n"
    families: dict[str, list[KernelRow]] = {}
    rows: list[KernelRow] = []
    for family, cases in groupby(CASES, key=lambda case: case.family):
        yield f"### {family}\n"
        yield "| kernel | target | measured, µs | predicted, µs | error | interval, µs | roofline, µs | error |"
        yield "|---|---|--:|--:|--:|--:|--:|--:|"
        sources: dict[str, None] = {}
        own: list[KernelRow] = []
        for case in cases:
            print(case.name, file=sys.stderr, flush=True)
            own.append(kernel_row(case))
            sources[case.source] = None
            yield own[-1].text
        yield f"\nSources: {'; '.join(sources)}.\n"
        rows += own
        families[family] = own
    yield "### Errors and intervals\n"
    yield from summary({**families, "all": rows})
    medians = [statistics.median(abs(each[n]) for each in rows) for n in (1, 2)]
    worst = [max(abs(each[n]) for each in rows) for n in (1, 2)]
    yield f"\nOf {len(rows)} kernels the median error is {medians[0]:.1%}, the greatest {worst[0]:.1%}."
    yield f"The roofline errs by {medians[1]:.1%} in the median, and by {worst[1]:.1%} at most."
    outside = [each.outside for each in rows]
    held, near = (sum(error <= most for error in outside) for most in (0.0, 0.01))
    far = f"{max(outside):.1%}"
    yield f"The interval holds {held} of the measured times; {near} are within 1 % of it, all within {far}.\n"
    yield "## Instructions and transfers\n"
    yield "| case | target | time | measured, ns | predicted, ns | error |"
    yield "|---|---|---|--:|--:|--:|"
    yield from (instruction_row(case) for case in MICROCASES)
    worst_case = max(MICROCASES, key=lambda case: abs(case.error))
    within = sum(abs(case.error) <= 0.05 for case in MICROCASES)
    greatest = f"{worst_case.error:+.1%} ({worst_case.name})"
    yield f"\n{within} of {len(MICROCASES)} are within 5 %; the greatest error is {greatest}."
    yield "Sources: " + "; ".join(dict.fromkeys(case.source for case in MICROCASES)) + "."


class KernelRow(NamedTuple):
    """The ``text`` of the row of a case; the errors of prediction, roofline, and the nearer end of the interval
    (0: it holds); and the width of the interval as a part of the prediction.
    """

    text: str
    error: float
    roofline: float
    outside: float
    width: float


def summary(families: Mapping[str, Sequence[KernelRow]]) -> Iterator[str]:
    """A table of families: the median error beside the coverage of the intervals and their median width."""
    yield "| family | kernels | median error | inside | median width |"
    yield "|---|--:|--:|--:|--:|"
    for family, rows in families.items():
        error = statistics.median(abs(row.error) for row in rows)
        width = statistics.median(row.width for row in rows)
        inside = sum(not each.outside for each in rows)
        yield f"| {family} | {len(rows)} | {error:.1%} | {inside} ({inside / len(rows):.0%}) | {width:.0%} |"


def kernel_row(case: Case) -> KernelRow:
    """The row of a case."""
    times = case.times()
    error, roofline = case.error(times.predicted), case.error(times.roofline)
    least, most = times.interval
    low, high = (f"{seconds * 1e6:,.2f}" for seconds in case.measured)
    measured = low if low == high else f"{low} to {high}"
    cells = (
        case.name,
        case.target,
        measured,
        f"{times.predicted * 1e6:,.2f}",
        f"{error:+.1%}",
        f"{least * 1e6:,.2f} to {most * 1e6:,.2f}",
        f"{times.roofline * 1e6:,.2f}",
        f"{roofline:+.1%}",
    )
    outside = max(0.0, case.error(least), -case.error(most))
    width = (most - least) / times.predicted
    return KernelRow(f"| {' | '.join(cells)} |", error, roofline, outside, width)


def instruction_row(case: Microcase) -> str:
    low, high = (f"{ns:,.1f}".removesuffix(".0") for ns in case.measured)
    measured = low if low == high else f"{low} to {high}"
    cells = (case.name, case.target, case.quantity, measured, f"{case.predicted():,.1f}", f"{case.error:+.1%}")
    return f"| {' | '.join(cells)} |"
