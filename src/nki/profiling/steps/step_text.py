"""The profile of a step as text: the answer, its kernels, when they run, and what has no price."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape
from typing import Final

from nki.profiling.amounts import count, duration, percent, size
from nki.profiling.steps.repeats import grouped
from nki.profiling.steps.step_run import ASSUMPTIONS, StepKernel, StepLaunch, StepRun
from nki.profiling.text import WIDTH, WIDTHS

OPERATIONS: Final = 12
"""Kinds of unpriced operations that are listed, unless all are asked for."""
NARROW: Final = 80
"""Columns below which the table of kernels has fewer of its own."""
CELLS: Final = 40
"""Characters of a row of the timeline, at most."""


def report(step: StepRun, width: int = WIDTH, lines: int | None = OPERATIONS) -> str:
    """The profile in ``width`` columns; with ``lines`` kinds of unpriced operations, or all of them (None)."""
    width = min(max(width, WIDTHS[0]), WIDTHS[1])
    parts = [_head(step, width), _kernels(step, width), _timeline(step, width), _path(step, width)]
    parts += [_operations(step, width, lines), _assumptions(step, width)]
    return "\n\n".join(filter(None, parts))


def _head(step: StepRun, width: int) -> str:
    first, second = step.interval
    title = (
        f"step {step.name} on {step.target}: {duration(step.latency)}, between {duration(first)} and {duration(second)}"
    )
    unpriced = sum(each.count for each in step.unpriced)
    launches = f"{len(step.launches):,} launch{'' if len(step.launches) == 1 else 'es'}"
    texts = [
        f"{duration(step.device_time)} on the device, {duration(step.launch_time)} of {launches} of "
        f"{count(len(step.kernels), 'kernel')}",
        f"{duration(step.critical_time)} on the critical path, {len(step.critical_path)} of {len(step.launches)} "
        "launches: no overlap of kernels makes it shorter",
        f"in order: {', '.join(map(str, step.order))}",
    ]
    if step.operation_time:
        texts.append(f"{duration(step.operation_time)} of operations of the framework")
    if unpriced:
        texts.append(f"no price for {count(unpriced, 'operation')} of the framework")
    return "\n".join([*_wrapped(title, "", width), *(row for text in texts for row in _wrapped(text, "  ", width))])


def _kernels(step: StepRun, width: int) -> str:
    names = _names(step, width)
    longest = max(map(len, ("kernel", *names.values())))
    wide = width >= NARROW
    rows = [f"  {'kernel':<{longest}}  launches       each{'  on device' if wide else ''}        all    share"]
    for each in by_share(step):
        device = f"  {duration(each.profile.device_time):>9}" if wide else ""
        rows.append(
            f"  {names[each]:<{longest}}  {each.launches:>8}  {duration(each.profile.latency):>9}{device}  "
            f"{duration(each.latency):>9}  {percent(step.share(each)):>7}"
        )
    return "\n".join(rows)


def _names(step: StepRun, width: int) -> dict[StepKernel, str]:
    """The titles of the kernels, cut so that the numbers have room beside them."""
    room = width - (54 if width >= NARROW else 43)
    return {each: each.title if len(each.title) <= room else f"{each.title[: room - 1]}…" for each in step.kernels}


def by_share(step: StepRun) -> list[StepKernel]:
    """The kernels, the one that takes most of the step first."""
    return sorted(step.kernels, key=lambda each: -each.latency)


def _timeline(step: StepRun, width: int) -> str:
    """A row for each kernel: the times at which it runs."""
    names = _names(step, width)
    longest = max(map(len, ("timeline", *names.values())))
    cells = max(min(CELLS, width - longest - 4), 10)
    total = step.latency
    rows: dict[StepKernel, list[str]] = {each: ["·"] * cells for each in step.kernels}
    for launch in step.launches:
        first, last = (min(int(time / total * cells), cells - 1) for time in (launch.begin, launch.end))
        if last > first and launch.end / total * cells - last < 0.5:
            last -= 1  # the cell that the next launch has most of
        rows[launch.kernel][first : last + 1] = "█" * (last + 1 - first)
    end = f"0{duration(total):>{cells - 1}}"
    texts = [f"  {'timeline':<{longest}}  {end}"]
    texts += [f"  {names[each]:<{longest}}  {''.join(row)}" for each, row in rows.items()]
    return "\n".join(texts)


def path_text(launches: Sequence[StepLaunch]) -> str:
    """The kernels of a chain of launches, with what repeats once."""
    return ", ".join(map(str, grouped([each.kernel.title for each in launches])))


def _path(step: StepRun, width: int) -> str:
    text = f"critical path, {duration(step.critical_time)}: {path_text(step.critical_path)}"
    return "\n".join(_wrapped(text, "  ", width))


def _operations(step: StepRun, width: int, most: int | None) -> str:
    if not step.unpriced:
        return ""
    operations = sorted(step.unpriced, key=lambda each: (not each.is_collective, -each.count * each.bytes))
    names = [f"{each.name} (collective)" if each.is_collective else each.name for each in operations[:most]]
    longest = max(len("unpriced"), *map(len, names))
    rows = [f"  {'unpriced':<{longest}}  {'count':>5}  {'bytes':>9}  shapes"]
    for name, each in zip(names, operations, strict=False):
        row = f"  {name:<{longest}}  {each.count:>5}  {size(each.count * each.bytes):>9}  {each.shapes}"
        rows.append(row if len(row) <= width else row[: width - 1] + "…")
    if rest := operations[len(names) :]:
        calls = sum(each.count for each in rest)
        rows.append(f"  {count(len(rest), 'other')} with {count(calls, 'call')} (--lines all shows them)")
    return "\n".join(rows)


def _assumptions(step: StepRun, width: int) -> str:
    rows = ["  the model assumes"]
    for text in (*ASSUMPTIONS, *step.notes):
        rows += _wrapped(text, "    ", width)
    return "\n".join(rows)


def _wrapped(text: str, indent: str, width: int) -> list[str]:
    together = text.replace(" %", "\N{NO-BREAK SPACE}%")
    return textwrap.wrap(
        together, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )


def notebook(step: StepRun) -> str:
    """The step in a notebook: its head, and a table of its kernels, as plain HTML."""
    first, second = step.interval
    head = (
        f"<p><b>step {escape(step.name)} on {escape(str(step.target))}: {duration(step.latency)}</b>, between "
        f"{duration(first)} and {duration(second)}; {duration(step.launch_time)} of it are launches. "
        f"No price for {count(sum(each.count for each in step.unpriced), 'operation')} of the framework.</p>"
    )
    titles = "".join(f"<th>{title}</th>" for title in ("kernel", "launches", "each", "all", "share"))
    body = "".join(
        f"<tr><td>{escape(each.title)}</td><td>{each.launches}</td><td>{duration(each.profile.latency)}</td>"
        f"<td>{duration(each.latency)}</td><td>{percent(step.share(each))}</td></tr>"
        for each in by_share(step)
    )
    return f"{head}<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
