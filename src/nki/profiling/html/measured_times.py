"""A capture beside the prediction, as a part of the report."""

from __future__ import annotations

from collections.abc import Sequence

from nki.profiling.against.measured import Beside, MeasuredRun
from nki.profiling.against.report import NOTHING, difference, explained, is_different, named
from nki.profiling.html.markup import Markup, tag
from nki.profiling.html.quantities import time
from nki.profiling.html.sections import card, name_cell, number_cell, table_of

ROWS = 20
"""Instructions and lines that are listed."""


def measured(against: MeasuredRun) -> Markup:
    """The measured times beside the predicted ones, and the explanation of the difference."""
    parts = [tag("p", sentence, class_="note") for sentence in explained(against.explanations) or [NOTHING]]
    parts.append(_table("Engine works", against.times))
    for title, rows in (("Mean of each", against.instructions), ("Line, in all", against.by_line)):
        if differing := [row for row in rows if is_different(row)][:ROWS]:
            parts.append(_table(title, differing))
    return card(f"Against {against.capture.file}, {against.capture.date}", parts, "against")


def _table(title: str, rows: Sequence[Beside]) -> Markup:
    return table_of(
        rows,
        (title, lambda row: name_cell(named(row))),
        ("Measured", lambda row: number_cell(time(row.measured * 1e9))),
        ("Predicted", lambda row: number_cell(time(row.predicted * 1e9))),
        ("Difference", lambda row: number_cell(difference(row))),
    )
