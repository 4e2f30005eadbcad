"""Write docs/validation.md: every published time that the project holds, beside the model's and a naive roofline's."""

from __future__ import annotations

import statistics
import sys
import warnings
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from nki.base.warning import NkiPortabilityWarning
from validation.cases import CASES, Case
from validation.microcases import MICROCASES, Microcase

PAGE = Path(__file__).parents[1] / "docs" / "validation.md"
_HEAD = """# Validation of the timing model

`make validate` writes this page. Every published time that the project holds stands beside the prediction of
`nki.profile`. An error is 0 where the prediction lies within what was measured; otherwise it counts from the nearer
end. No number of the model is fitted to one kernel: each fact of the [targets](reference/targets.md) has a
source of its own, and where the cases below are the source of a fact, they test the model's form and not its reach.
Latencies of other kernels are kept aside to judge the model, and are not shown here.
"""


def main() -> None:
    """Write the page, or with ``--check`` compare it; progress goes to standard error."""
    warnings.simplefilter("ignore", NkiPortabilityWarning)
    text = "\n".join(page()) + "\n"
    if "--check" in sys.argv[1:]:
        if text != PAGE.read_text(encoding="utf-8"):
            sys.exit("docs/validation.md is not current: run `make validate`")
        return
    PAGE.write_text(text, encoding="utf-8")


def page() -> Iterator[str]:
    """The lines of the page."""
    yield _HEAD
    yield "## Kernels\n"
    errors: list[float] = []
    for family, cases in groupby(CASES, key=lambda case: case.family):
        yield f"### {family}\n"
        yield "| kernel | target | measured, µs | predicted, µs | error | roofline, µs | error |"
        yield "|---|---|--:|--:|--:|--:|--:|"
        sources: dict[str, None] = {}
        for case in cases:
            print(case.name, file=sys.stderr, flush=True)
            row, error = _kernel(case)
            errors.append(abs(error))
            sources[case.source] = None
            yield row
        yield f"\nSources: {'; '.join(sources)}.\n"
    yield f"The median error of all kernels is {statistics.median(errors):.1%}, the greatest {max(errors):.1%}.\n"
    yield "## Instructions and transfers\n"
    yield "| case | target | time | measured, ns | predicted, ns | error |"
    yield "|---|---|---|--:|--:|--:|"
    yield from (_instruction(case) for case in MICROCASES)
    worst = max(MICROCASES, key=lambda case: abs(case.error))
    within = sum(abs(case.error) <= 0.05 for case in MICROCASES)
    yield f"\n{within} of {len(MICROCASES)} are within 5 %; the greatest error is {worst.error:+.1%} ({worst.name})."
    yield "Sources: " + "; ".join(dict.fromkeys(case.source for case in MICROCASES)) + "."


def _kernel(case: Case) -> tuple[str, float]:
    times = case.times()
    error = case.error(times.predicted)
    low, high = (f"{seconds * 1e6:,.2f}" for seconds in case.measured)
    measured = low if low == high else f"{low} to {high}"
    cells = (
        case.name,
        case.target,
        measured,
        f"{times.predicted * 1e6:,.2f}",
        f"{error:+.1%}",
        f"{times.roofline * 1e6:,.2f}",
        f"{case.error(times.roofline):+.1%}",
    )
    return f"| {' | '.join(cells)} |", error


def _instruction(case: Microcase) -> str:
    low, high = (f"{ns:,.1f}".removesuffix(".0") for ns in case.measured)
    measured = low if low == high else f"{low} to {high}"
    cells = (case.name, case.target, case.quantity, measured, f"{case.predicted():,.1f}", f"{case.error:+.1%}")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
