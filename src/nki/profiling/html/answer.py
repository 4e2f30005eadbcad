"""The answer of a profile, which the report shows first: parts of the latency, its limit, and what to change."""

from __future__ import annotations

from nki.base.terms import limit
from nki.profiling.advice import LEAST_WORTH, AdvisedRun
from nki.profiling.html.markup import Markup, side_by_side, strip, tag
from nki.profiling.html.quantities import percent, sentence, time
from nki.profiling.html.sections import line_buttons, worth
from nki.profiling.html.source_listing import Listing
from nki.profiling.latency_parts import BETWEEN, LAUNCH, latency_parts
from nki.profiling.metrics import ENGINES

CHAIN = "dependences"
"""The lower bound's resource that is no engine: the longest chain of results that need each other."""
COLOURS = {BETWEEN: "fill-throttled"}
"""Colours of the parts of the latency that have not their own."""
NAMES = {LAUNCH: LAUNCH, BETWEEN: BETWEEN, "dma": "DMA", "gpsimd": "GpSimd"}
"""Parts with other names than their queues have with a capital."""


def answer(profile: AdvisedRun, listing: Listing) -> Markup:
    """The card above the timeline."""
    first = tag("div", tag("h2", "Change first"), *_first(profile, listing), class_="first")
    limit = tag("div", tag("h2", "Limit"), tag("p", _limit(profile)))
    parts = path_parts(profile)
    return tag(
        "section",
        tag("div", limit, first, class_="verdict"),
        _bar(parts, profile.latency * 1e9),
        tag("ul", [_entry(*part) for part in parts], class_="legend"),
        class_="card answer",
        aria_label="Answer",
    )


def path_parts(profile: AdvisedRun) -> list[tuple[str, float, str]]:
    """The parts of the latency: name, ns and class of the colour."""
    return [(_name(part), ns, COLOURS.get(part, f"fill-{part}")) for part, ns in latency_parts(profile)]


def _bar(parts: list[tuple[str, float, str]], latency: float) -> Markup:
    label = "The latency consists of " + ", ".join(f"{name} {time(ns)}" for name, ns, _ in parts)
    return strip(side_by_side((ns / latency if latency else 0.0, class_) for _, ns, class_ in parts), label)


def _entry(name: str, ns: float, class_: str) -> Markup:
    mark = tag("svg", tag("rect", width=18, height=9, class_=class_), viewBox="0 0 18 9", aria_hidden="true")
    return tag("li", mark, f"{name} ", tag("b", time(ns)))


def _limit(profile: AdvisedRun) -> str:
    """The reason why the kernel is not faster, in one or two sentences."""
    bound, total = profile.lower_bound, profile.timeline.ns or 1.0
    at_least = time(bound.seconds * 1e9)
    uses = sorted(profile.engines, key=lambda use: -use.busy)
    if not uses:
        return "The launch: the kernel has no instructions."
    core = f" of core {uses[0].core}" if len(profile.cores) > 1 else ""
    most = f"{_name(uses[0].engine)}{core} is busy for {percent(uses[0].busy / total)} of the time on the device"
    if bound.resource == CHAIN:
        return f"Instructions that need each other's results: {at_least} at least. {most}, no engine for more."
    resource = _name(bound.resource) if bound.resource in ENGINES else sentence(limit(bound.resource))
    over = profile.latency / bound.seconds if bound.seconds else 1.0
    rest = "this order reaches that" if over < 1.0 + LEAST_WORTH else f"this order takes {over:.2f}× as long"
    return f"{resource}: {at_least} at least in any order, and {rest}. {most}."


def _first(profile: AdvisedRun, listing: Listing) -> list[Markup | None]:
    entries = sorted(profile.advice, key=lambda each: each.rank)
    if not entries or entries[0].condition:
        none = f"Nothing: no change that the model knows gains {LEAST_WORTH:.0%} of the latency."
        return [tag("p", none)]
    best = entries[0]
    rest = f"{len(entries) - 1} more below." if len(entries) > 1 else None
    more = tag("span", " ", tag("a", rest, href="#advice"), class_="note") if rest else None
    return [
        tag("p", tag("b", best.title), " ", worth(best), more),
        tag("p", sentence(best.remedy), class_="remedy"),
        line_buttons(best.lines, listing),
    ]


def _name(engine: str) -> str:
    return NAMES.get(engine, engine.capitalize())
