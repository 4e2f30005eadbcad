"""Parts of the report that need no script: the head, advice, and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from nki.base.source import Span
from nki.base.terms import TERMS, resource_name, term
from nki.profiling.advice import Advice
from nki.profiling.against.calibration import about_facts
from nki.profiling.callers import Calls, call_text
from nki.profiling.events import MEMORIES
from nki.profiling.html.markup import Child, Markup, side_by_side, strip, tag
from nki.profiling.html.quantities import count, digits, percent, rate, sentence, size, time
from nki.profiling.html.source_listing import Listing
from nki.profiling.latency_parts import LongStep, longest_steps
from nki.profiling.metrics import LEAST_WORTH, Cost, EngineUse
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.text import about_assumptions

_Row = TypeVar("_Row")


def head(profile: PredictedRun) -> Markup:
    """The name, the target, and the numbers that one looks at first."""
    fast, slow = (seconds * 1e9 for seconds in profile.interval)
    latency, bound = profile.latency * 1e9, profile.lower_bound
    cores = f"{len(profile.cores)} cores" if len(profile.cores) > 1 else "1 core"
    title = tag(
        "div",
        tag("h1", profile.name),
        tag("p", tag("b", str(profile.target)), f" · {cores} · {count(profile.instructions)} instructions"),
        tag("p", "Prediction of a model, no measurement.", class_="mark"),
        [tag("p", row, class_="note") for row in (*about_assumptions(profile), *about_facts(profile.target))],
        class_="title",
    )
    over = latency / (bound.seconds * 1e9) if bound.seconds else 1.0
    peaks = profile.peak_memory
    sbuf, psum = profile.available_memory.values()
    figures = [
        figure("Latency", time(latency), f"{time(profile.launch_time * 1e9)} of it launch", "main"),
        figure("Capture", time(profile.total_time * 1e9), f"{time(profile.device_time * 1e9)} of it on the device"),
        figure("Range", f"{_plain(fast, latency)} – {time(slow)}", "from guesses about the hardware and the compiler"),
        figure(
            "Lower bound",
            time(bound.seconds * 1e9),
            f"{resource_name(bound.resource)}; the kernel takes {digits(over)}×",
        ),
        figure("MFU", percent(profile.mfu), f"of {rate(profile.peak_flops, 'FLOP/s')}"),
        figure("MBU", percent(profile.mbu), f"of {rate(profile.peak_bandwidth, 'B/s')}"),
        figure("HBM traffic", size(profile.hbm_bytes), f"{_intensity(profile.intensity)} FLOP per byte"),
        figure("Peak memory", f"{percent(peaks['sbuf'] / sbuf)} SBUF", f"{percent(peaks['psum'] / psum)} PSUM"),
    ]
    return tag("header", title, tag("dl", figures, class_="figures"), class_="head")


def _plain(ns: float, like: float) -> str:
    """A time without its unit if ``like`` has the same."""
    value, _, unit = time(ns).partition(" ")
    return value if unit == time(like).partition(" ")[2] else f"{value} {unit}"


def _intensity(value: float) -> str:
    return digits(value) if value else "0"


def figure(name: str, value: str, note: str, class_: str | None = None) -> Markup:
    """A number of the head, with its name and a note below."""
    return tag(
        "div", tag("dt", name, title=meaning(name)), tag("dd", value), tag("dd", note, class_="note"), class_=class_
    )


def worth(entry: Advice) -> Markup:
    """The gain of a change."""
    return tag("span", f"{'up to ' if entry.at_most else ''}−{time(entry.seconds * 1e9)}", class_="worth")


def advice(entries: Iterable[Advice], listing: Listing) -> Markup:
    """The advice, the most valuable first, or the news that there is none."""
    items = [
        tag(
            "li",
            tag(
                "h3",
                each.title,
                worth(each),
                tag("span", f" with {each.condition}", class_="note") if each.condition else None,
            ),
            tag("p", sentence(each.evidence)),
            tag("p", sentence(each.remedy), class_="remedy"),
            line_buttons(each.lines, listing),
        )
        for each in sorted(entries, key=lambda each: each.rank)
    ]
    none = tag("p", f"No change that the model knows gains {LEAST_WORTH:.0%} of the latency.", class_="note")
    body = tag("ol", items) if items else none
    return tag("section", tag("h2", "Advice"), body, class_="card advice", id="advice", aria_label="Advice")


def line_buttons(lines: Iterable[Span], listing: Listing) -> Markup | None:
    """Buttons that highlight the instructions of ``lines``; None without a line that the report shows."""
    numbers = sorted({listing.number(span) for span in lines} - {-1})
    if not numbers:
        return None
    buttons = [tag("button", listing.places[n].label, data_line=n, aria_pressed="false") for n in numbers]
    return tag("p", buttons, class_="lines")


def engines(profile: PredictedRun) -> Markup:
    """The table of engines: busy, stalled by cause, idle."""
    several = len(profile.cores) > 1
    total = profile.timeline.ns or 1.0
    table = table_of(
        profile.engines,
        ("Engine", lambda use: name_cell(f"{use.core} · {use.engine}" if several else use.engine)),
        ("Busy, stalled, idle", lambda use: tag("td", _bar(use, total), class_="bar")),
        ("Busy", lambda use: number_cell(percent(use.busy / total), time(use.busy))),
        ("Slow clock", lambda use: number_cell(time(use.throttled) if use.throttled else "")),
        ("Stalled", lambda use: number_cell(time(use.stalled) if use.stalled else "")),
        ("Stalled, by cause", lambda use: tag("td", _causes(use), class_="causes")),
        ("Instructions", lambda use: number_cell(count(use.instructions))),
    )
    return card("Engines and stalls", table, "engines")


def _bar(use: EngineUse, total: float) -> Markup:
    fast = max(use.busy - use.throttled, 0.0)
    parts = ((fast, f"fill-{use.engine}"), (use.throttled, "fill-throttled"), (use.stalled, "fill-stall"))
    label = f"busy {percent(use.busy / total)}, stalled {percent(use.stalled / total)}"
    return strip(side_by_side((ns / total, class_) for ns, class_ in parts), label)


def _causes(use: EngineUse) -> list[Child]:
    """The causes, the largest first, each as a button that selects the instruction at the end of its longest stall."""
    parts: list[Child] = []
    for cause, ns in use.causes:
        row = use.longest.get(cause)
        known = f"{cause}: {meaning(cause)}. " if meaning(cause) else ""
        title = f"{known}A click selects the instruction that waited longest."
        name = tag("span", cause, title=meaning(cause))
        if row is not None:
            name = tag("button", cause, data_row=row, data_core=use.core, title=title)
        parts += [", " if parts else "", name, f" {time(ns)}"]
    return parts


def transfers(profile: PredictedRun) -> Markup:
    """The tables of DMA transfers by size, and of bytes by memory."""
    most = max((row.busy for row in profile.transfers), default=0.0) or 1.0
    by_size = table_of(
        profile.transfers,
        ("Size", lambda row: name_cell(f"≤ {size(row.up_to)}")),
        ("Transfers", lambda row: number_cell(count(row.count))),
        ("Bytes", lambda row: number_cell(size(row.bytes))),
        ("Time", lambda row: number_cell(time(row.busy))),
        ("", lambda row: share_cell(row.busy / most, "fill-dma")),
        ("Rate of each", lambda row: number_cell(rate(row.bytes / row.busy * 1e9, "B/s") if row.busy else "")),
    )
    by_memory = table_of(
        MEMORIES,
        ("Memory", lambda memory: name_cell(memory.upper())),
        ("Read", lambda memory: number_cell(size(profile.bytes[f"{memory}_read"]))),
        ("Written", lambda memory: number_cell(size(profile.bytes[f"{memory}_write"]))),
    )
    return card("Transfers by size", [by_size, tag("h3", "Bytes by memory"), by_memory], "transfers")


def instructions(profile: PredictedRun) -> Markup:
    """The table of instructions by their part of the critical path."""
    path = sum(cost.critical for cost in profile.by_instruction.values()) or 1.0
    table = table_of(
        profile.by_instruction.items(),
        ("Instruction", lambda row: name_cell(tag("button", row[0], data_find=row[0]))),
        ("Critical path", lambda row: number_cell(percent(row[1].critical / path), time(row[1].critical))),
        ("", lambda row: share_cell(row[1].critical / path, "fill-critical")),
        ("On engines", lambda row: number_cell(time(row[1].busy))),
        ("Executions", lambda row: number_cell(count(row[1].executions))),
        ("Each", lambda row: number_cell(time(row[1].busy / row[1].executions) if row[1].executions else "")),
    )
    return card("Instructions", table, "instructions")


def steps(profile: PredictedRun, listing: Listing) -> Markup:
    """The table of the longest steps of the critical path."""
    several = len(profile.cores) > 1

    def takes(each: LongStep) -> Markup:
        return number_cell(time(each.step.ns), f"{count(each.iterations)} iterations" if each.iterations > 1 else None)

    def line(each: LongStep) -> Markup:
        number = listing.number(each.span)
        return tag("td", listing.places[number].label if number >= 0 else "")

    table = table_of(
        longest_steps(profile),
        ("Instruction", lambda s: name_cell(tag("button", s.mnemonic, data_row=s.step.row, data_core=s.step.core))),
        ("Queue", lambda s: tag("td", f"{s.step.core} · {s.queue}" if several else s.queue)),
        ("Takes", takes),
        ("At", lambda s: number_cell(time(s.step.begin))),
        ("Line", line),
    )
    return card("Longest steps of the critical path", table, "steps")


HINTS = {
    "Latency": "the time that a benchmark on the device would show: the kernel on the device, and the launch",
    "Range": "the latency if all guesses about the hardware were at the fast, or at the slow, end of their ranges",
    "Lower bound": "the time that no order of these instructions beats, and what says so",
    "HBM traffic": f"bytes to and from {TERMS['HBM']}",
    "Peak memory": "the most bytes per partition in use at one time, of what a kernel can use in SBUF and PSUM",
    "Critical path": TERMS["critical"],
    "On engines": TERMS["busy"],
}
"""Tooltips of names that are no words of the text, which have their own (:data:`nki.base.terms.TERMS`)."""


def meaning(name: str) -> str | None:
    """The tooltip that explains a name; None for one that needs none."""
    known = term(name)
    return HINTS.get(name) or (known[1] if known else None)


def calls(profile: PredictedRun, listing: Listing) -> Markup | None:
    """The tables of what calls cost: each as a whole, and each line that several calls reach; None without calls."""
    callers = profile.callers
    if not callers.of_call:
        return None
    path = sum(each.critical for each in profile.lines.values()) or 1.0
    costs: tuple[_Column[tuple[str, str, Cost]], ...] = (
        ("Critical path", lambda row: number_cell(percent(row[2].critical / path), time(row[2].critical))),
        ("On engines", lambda row: number_cell(time(row[2].busy))),
        ("HBM", lambda row: number_cell(size(row[2].hbm_bytes) if row[2].hbm_bytes else "")),
        ("Executions", lambda row: number_cell(count(row[2].executions))),
    )
    wholes = [("", _call_text((call,), listing), cost) for call, cost in callers.of_call.items()]
    parts = [table_of(wholes, ("Call", lambda row: name_cell(row[1])), *costs)]
    lines = [
        (listing.label(line), _call_text(calls, listing), cost)
        for line in callers.of_line
        for calls, cost in callers.distinct(line)
    ]
    if lines:
        by_line = table_of(
            lines, ("Line", lambda row: name_cell(row[0])), ("From", lambda row: tag("td", row[1])), *costs
        )
        parts += [tag("h3", "Lines that several calls reach"), by_line]
    return card("Calls", parts, "calls")


def _call_text(path: Calls, listing: Listing) -> str:
    """Calls that lead to a line, outermost first, and the text of the last one."""
    code = call_text(path[-1])
    return " > ".join(map(listing.label, path)) + (f"  {code}" if code else "")


def card(title: str, content: Child | Iterable[Child], class_: str) -> Markup:
    """A part of the report with its title."""
    return tag("section", tag("h2", title), content, class_=f"card {class_}", aria_label=title)


_Column = tuple[str, Callable[[_Row], Markup]]
"""The title of a column, and the cell that a row has there."""


def table_of(rows: Iterable[_Row], *columns: _Column[_Row]) -> Markup:
    """A table with a row for each of ``rows``."""
    head = [tag("th", title, scope="col", title=meaning(title)) if title else tag("td") for title, _ in columns]
    body = [tag("tr", [cell(row) for _, cell in columns]) for row in rows]
    return tag("div", tag("table", tag("thead", tag("tr", head)), tag("tbody", body)), class_="scroll")


def name_cell(value: Child) -> Markup:
    """The first cell of a row."""
    return tag("th", value, scope="row")


def number_cell(value: str, note: str | None = None) -> Markup:
    """A cell with a number, and a note beside it."""
    return tag("td", value, tag("span", note, class_="note") if note else None, class_="number")


def share_cell(part: float, class_: str) -> Markup:
    """A cell with a bar."""
    return tag("td", strip([tag("rect", width=part * 100, height=10, class_=class_)]), class_="bar")
