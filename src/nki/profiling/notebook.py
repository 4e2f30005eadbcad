"""A profile in a notebook: small tables of plain HTML, without scripts and without styles of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from nki.profiling import text
from nki.profiling.amounts import duration, percent, place, size
from nki.profiling.predicted_run import PredictedRun


def table(profile: PredictedRun) -> str:
    """The head of a profile, its engines, and the lines that cost most."""
    first, second = profile.interval
    total = profile.timeline.ns or 1.0
    head = (
        f"<b>{escape(profile.name)} on {escape(profile.target.name)}: {duration(profile.latency)}</b>, "
        f"between {duration(first)} and {duration(second)}; {duration(profile.launch_time)} of it are "
        f"the launch. At least {duration(profile.lower_bound.seconds)} in any order of these instructions: "
        f"{escape(profile.lower_bound.resource)}."
    )
    about = "".join(f"<p>{escape(row)}</p>" for row in text.about_assumptions(profile))
    engines = [
        (
            f"{use.core}.{use.engine}" if len(profile.cores) > 1 else use.engine,
            f"<progress max='{total:.6g}' value='{use.busy:.6g}'></progress> {percent(use.busy / total)}",
            percent(use.stalled / total),
            escape(", ".join(f"{name} {percent(ns / total)}" for name, ns in use.stalls.items())),
        )
        for use in profile.engines
    ]
    lines = [
        (
            escape(place(span)),
            percent(cost.critical / total),
            duration(cost.busy * 1e-9),
            size(cost.hbm_bytes) if cost.hbm_bytes else "",
        )
        for span, cost in list(profile.lines.items())[: text.LINES]
    ]
    return (
        f"<p>{head}</p>"
        + about
        + _table(("engine", "busy", "stalled", "cause"), engines)
        + _table(("line", "critical path", "busy", "HBM"), lines)
    )


def compared(first: PredictedRun, second: PredictedRun) -> str:
    """Two profiles side by side, as the text has them."""
    rows = text.comparison_rows(first, second)
    (_, titles), *others = rows
    return _table(("", *map(escape, titles)), [(escape(name), *map(escape, cells)) for name, cells in others])


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
