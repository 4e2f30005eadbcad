"""The accuracy of a kernel as one HTML file: the answer, the outputs, and the error of each line beside the source."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from nki.profiling import html
from nki.profiling.amounts import count, place
from nki.profiling.html import quantities
from nki.profiling.html.markup import Markup, joined, strip, tag
from nki.profiling.html.sections import card, figure, name_cell, number_cell, table_of
from nki.profiling.html.source_listing import SourceListing
from nki.rounding import text
from nki.rounding.findings import Findings, LineError
from nki.rounding.text import advice, told, verdict

COLUMNS: Final = (
    ("Share", "Part of the squared error of all lines at the output with the most of it"),
    ("Error", "Error at that output that this line causes, as a part of the root mean square of the exact result"),
    ("Adds", "Most that one execution of the line adds, as a part of the greatest element that it stores"),
    ("Cause", "What most of the error is"),
    ("Line", ""),
)


class _Lines(SourceListing):
    """The lines with errors or events."""

    def __init__(self, found: Findings) -> None:
        by_span = {line.span: line for line in found.lines if line.span is not None}
        super().__init__(by_span)
        self.errors: list[LineError] = [by_span[span] for span in self.spans]

    def part(self, numbers: Iterable[int]) -> float:
        return min(1.0, sum(self.errors[number].share for number in numbers))

    def cells(self, number: int, line: int) -> list[Markup]:
        error = self.errors[number]
        bar = strip([tag("rect", width=100 * error.share, height=10)])
        shown = quantities.percent(error.share) if error.share >= 0.0005 else ""
        return [
            tag("td", bar, tag("span", shown), class_="critical"),
            tag("td", text.number(error.error)),
            tag("td", text.number(error.local)),
            tag("td", error.cause, title="; ".join(told(error))),
            tag("td", line, class_="n"),
        ]


def render(found: Findings) -> str:
    """The report as the text of an HTML file, in UTF-8."""
    listing = _Lines(found)
    names = [tag("span", name, title=meaning or None) for name, meaning in COLUMNS]
    source = tag(
        "section",
        tag("h2", "Source"),
        tag("div", names, class_="columns", aria_hidden="true"),
        tag("div", listing.markup(), class_="listing", tabindex=0, role="region", aria_label="Source lines"),
        class_="card source causes",
        aria_label="Source",
    )
    outputs = table_of(
        found.outputs,
        ("Output", lambda each: name_cell(each.name)),
        ("Dtype", lambda each: tag("td", each.dtype)),
        ("Error", lambda each: number_cell(text.number(each.error))),
        ("One rounding", lambda each: number_cell(text.number(each.needed))),
        ("Greatest", lambda each: number_cell(text.number(each.max_abs))),
        ("Greatest part", lambda each: number_cell(text.number(each.max_rel))),
        ("Units in the last place", lambda each: number_cell(text.number(each.ulps))),
    )
    changes = [tag("li", advice(each)) for each in found.wider]
    findings = [
        tag("li", tag("b", place(line.span)), ": ", "; ".join(told(line))) for line in found.lines if told(line)
    ]
    main = tag(
        "main",
        card("Outputs", outputs, "outputs"),
        source,
        card("What the lines lose", tag("ul", findings), "assumed") if findings else None,
        card("Wider tiles, each run again", tag("ul", changes), "assumed") if changes else None,
    )
    return html.page(f"{found.name} on {found.target} · accuracy", joined(_head(found), main), html.STEP_STYLES)


def _head(found: Findings) -> Markup:
    title = tag(
        "div",
        tag("h1", found.name),
        tag("p", tag("b", found.target), f" · {count(found.instructions, 'instruction')}"),
        tag("p", verdict(found), class_="mark"),
        class_="title",
    )
    needed = max((output.needed for output in found.outputs), default=0.0)
    times = found.error / needed if needed and math.isfinite(found.error) else math.inf
    figures = [
        figure("Error", text.number(found.error), "of the worst output", "main"),
        figure("One rounding", text.number(needed), f"the error is {text.number(times)} times that"),
    ]
    return tag("header", title, tag("dl", figures, class_="figures"), class_="head")
