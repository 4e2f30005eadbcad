"""Parts of the report that need no script: the head, advice, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nki.base.source import Span
from nki.base.terms import TERMS, resource_name, term
from nki.profiling.advice import Advice
from nki.profiling.callers import Calls, call_text
from nki.profiling.html.markup import Child, Markup, tag
from nki.profiling.html.quantities import count, digits, percent, rate, sentence, size, time
from nki.profiling.html.source_listing import Listing
from nki.profiling.metrics import LEAST_WORTH, Cost, EngineUse
from nki.profiling.predicted_run import PredictedRun
from nki.profiling.text import about_spare_loads

STEPS = 12
"""Rows of the table of the longest steps of the critical path."""


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
        tag("p", about, class_="note") if (about := about_spare_loads(profile)) else None,
        class_="title",
    )
    over = latency / (bound.seconds * 1e9) if bound.seconds else 1.0
    peaks = profile.peak_memory
    sbuf, psum = profile.available_memory.values()
    figures = [
        _figure("Latency", time(latency), f"{time(profile.launch_time * 1e9)} of it launch", "main"),
        _figure("Range", f"{_plain(fast, latency)} – {time(slow)}", "from guesses about the hardware"),
        _figure(
            "Lower bound",
            time(bound.seconds * 1e9),
            f"{resource_name(bound.resource)}; the kernel takes {digits(over)}×",
        ),
        _figure("MFU", percent(profile.mfu), f"of {rate(profile.peak_flops, 'FLOP/s')}"),
        _figure("MBU", percent(profile.mbu), f"of {rate(profile.peak_bandwidth, 'B/s')}"),
        _figure("HBM traffic", size(profile.hbm_bytes), f"{_intensity(profile.intensity)} FLOP per byte"),
        _figure("Peak memory", f"{percent(peaks['sbuf'] / sbuf)} SBUF", f"{percent(peaks['psum'] / psum)} PSUM"),
    ]
    return tag("header", title, tag("dl", figures, class_="figures"), class_="head")


def _plain(ns: float, like: float) -> str:
    """A time without its unit if ``like`` has the same."""
    value, _, unit = time(ns).partition(" ")
    return value if unit == time(like).partition(" ")[2] else f"{value} {unit}"


def _intensity(value: float) -> str:
    return digits(value) if value else "0"


def _figure(name: str, value: str, note: str, class_: str | None = None) -> Markup:
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
            ),
            tag("p", sentence(each.evidence)),
            tag("p", sentence(each.remedy), class_="remedy"),
            line_buttons(each.lines, listing),
        )
        for each in sorted(entries, key=lambda each: -each.seconds)
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
    indices = {core.rank: index for index, core in enumerate(profile.cores)}
    total = profile.timeline.ns or 1.0
    rows = [
        tag(
            "tr",
            tag("th", f"{use.core} · {use.engine}" if several else use.engine, scope="row"),
            tag("td", _bar(use, total), class_="bar"),
            _number(percent(use.busy / total), time(use.busy)),
            _number(time(use.throttled) if use.throttled else ""),
            _number(time(stalled) if (stalled := sum(use.stalls.values())) else ""),
            tag("td", _causes(use, indices[use.core]), class_="causes"),
            _number(count(use.instructions)),
        )
        for use in profile.engines
    ]
    names = ("Engine", "Busy, stalled, idle", "Busy", "Slow clock", "Stalled", "Stalled, by cause", "Instructions")
    return card("Engines and stalls", _table(names, rows), "engines")


def _bar(use: EngineUse, total: float) -> Markup:
    fast = max(use.busy - use.throttled, 0.0)
    parts = [(fast, f"fill-{use.engine}"), (use.throttled, "fill-throttled")]
    parts += [(sum(use.stalls.values()), "fill-stall")]
    rects: list[Markup] = []
    x = 0.0
    for ns, class_ in parts:
        width = ns / total * 100
        if width > 0:
            rects.append(tag("rect", x=x, width=width, height=10, class_=class_))
        x += width
    label = f"busy {percent(use.busy / total)}, stalled {percent(sum(use.stalls.values()) / total)}"
    return tag("svg", rects, viewBox="0 0 100 10", preserveAspectRatio="none", role="img", aria_label=label)


def _causes(use: EngineUse, core: int) -> list[Child]:
    """The causes, the largest first, each as a button that selects the instruction at the end of its longest stall."""
    parts: list[Child] = []
    for cause, ns in sorted(use.stalls.items(), key=lambda item: -item[1]):
        row = use.longest.get(cause)
        known = f"{cause}: {meaning(cause)}. " if meaning(cause) else ""
        title = f"{known}A click selects the instruction that waited longest."
        name = tag("span", cause, title=meaning(cause))
        if row is not None:
            name = tag("button", cause, data_row=row, data_core=core, title=title)
        parts += [", " if parts else "", name, f" {time(ns)}"]
    return parts


def transfers(profile: PredictedRun) -> Markup:
    """The tables of DMA transfers by size, and of bytes by memory."""
    most = max((row.busy for row in profile.transfers), default=0.0) or 1.0
    rows = [
        tag(
            "tr",
            tag("th", f"≤ {size(row.up_to)}", scope="row"),
            _number(count(row.count)),
            _number(size(row.bytes)),
            _number(time(row.busy)),
            tag("td", _share(row.busy / most, "fill-dma"), class_="bar"),
            _number(rate(row.bytes / row.busy * 1e9, "B/s") if row.busy else ""),
        )
        for row in profile.transfers
    ]
    by_size = _table(("Size", "Transfers", "Bytes", "Time", "", "Rate of each"), rows)
    memories = [
        tag(
            "tr",
            tag("th", memory.upper(), scope="row"),
            _number(size(profile.bytes[f"{memory}_read"])),
            _number(size(profile.bytes[f"{memory}_write"])),
        )
        for memory in ("hbm", "sbuf", "psum")
    ]
    by_memory = _table(("Memory", "Read", "Written"), memories)
    return card("Transfers by size", [by_size, tag("h3", "Bytes by memory"), by_memory], "transfers")


def instructions(profile: PredictedRun) -> Markup:
    """The table of instructions by their part of the critical path."""
    path = sum(cost.critical for cost in profile.by_instruction.values()) or 1.0
    rows = [
        tag(
            "tr",
            tag("th", tag("button", name, data_find=name), scope="row"),
            _number(percent(cost.critical / path), time(cost.critical)),
            tag("td", _share(cost.critical / path, "fill-critical"), class_="bar"),
            _number(time(cost.busy)),
            _number(count(cost.executions)),
            _number(time(cost.busy / cost.executions) if cost.executions else ""),
        )
        for name, cost in profile.by_instruction.items()
    ]
    return card(
        "Instructions",
        _table(("Instruction", "Critical path", "", "On engines", "Executions", "Each"), rows),
        "instructions",
    )


def steps(profile: PredictedRun, listing: Listing) -> Markup:
    """The table of the longest steps of the critical path."""
    rows: list[Markup] = []
    by_rank = {core.rank: (index, core) for index, core in enumerate(profile.cores)}
    several = len(profile.cores) > 1
    for step in sorted(profile.critical_path, key=lambda step: -step.ns)[:STEPS]:
        index, core = by_rank[step.core]
        number = int(core.number[step.row])
        line = listing.number(core.span(number))
        name = core.instructions[number].mnemonic
        queue = core.queues[int(core.queue[step.row])]
        weight = int(core.weight[step.row])
        button = tag("button", name, data_row=step.row, data_core=index)
        rows.append(
            tag(
                "tr",
                tag("th", button, scope="row"),
                tag("td", f"{core.rank} · {queue}" if several else queue),
                _number(time(step.ns), f"{count(weight)} iterations" if weight > 1 else None),
                _number(time(step.begin)),
                tag("td", listing.places[line].label if line >= 0 else ""),
            )
        )
    return card(
        "Longest steps of the critical path", _table(("Instruction", "Queue", "Takes", "At", "Line"), rows), "steps"
    )


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
    wholes = [_cost_row(_call_text((call,), listing), cost, profile) for call, cost in callers.of_call.items()]
    head = ("Critical path", "On engines", "HBM", "Executions")
    parts = [_table(("Call", *head), wholes)]
    lines = [
        _cost_row(_call_text(path, listing), cost, profile, listing.label(line))
        for line in callers.of_line
        for path, cost in callers.distinct(line)
    ]
    if lines:
        parts += [tag("h3", "Lines that several calls reach"), _table(("Line", "From", *head), lines)]
    return card("Calls", parts, "calls")


def _cost_row(name: str, cost: Cost, profile: PredictedRun, line: str = "") -> Markup:
    """A row about what a call costs, or what it costs at a line."""
    path = sum(each.critical for each in profile.lines.values()) or 1.0
    first = [tag("th", line, scope="row"), tag("td", name)] if line else [tag("th", name, scope="row")]
    return tag(
        "tr",
        first,
        _number(percent(cost.critical / path), time(cost.critical)),
        _number(time(cost.busy)),
        _number(size(cost.hbm_bytes) if cost.hbm_bytes else ""),
        _number(count(cost.executions)),
    )


def _call_text(path: Calls, listing: Listing) -> str:
    """Calls that lead to a line, outermost first, and the text of the last one."""
    code = call_text(path[-1])
    return " > ".join(map(listing.label, path)) + (f"  {code}" if code else "")


def card(title: str, content: Child | Iterable[Child], class_: str) -> Markup:
    """A part of the report with its title."""
    return tag("section", tag("h2", title), content, class_=f"card {class_}", aria_label=title)


def _table(names: Sequence[str], rows: Sequence[Markup]) -> Markup:
    cells = [tag("th", name, scope="col", title=meaning(name)) if name else tag("td") for name in names]
    return tag("div", tag("table", tag("thead", tag("tr", cells)), tag("tbody", rows)), class_="scroll")


def _number(value: str, note: str | None = None) -> Markup:
    return tag("td", value, tag("span", note, class_="note") if note else None, class_="number")


def _share(part: float, class_: str) -> Markup:
    rect = tag("rect", width=part * 100, height=10, class_=class_)
    return tag("svg", rect, viewBox="0 0 100 10", preserveAspectRatio="none", aria_hidden="true")
