"""The report of a profile: one HTML file that holds everything it needs and asks no network for anything.

:func:`render` makes it. Tables and charts are markup that Python writes; the timeline is drawn by the scripts in
``assets/``, which find instructions, lines and waits in the data beside them. A content security policy in the page
forbids every request, and any script or style but these.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from nki.profiling.advice import AdvisedRun
from nki.profiling.against.measured import MeasuredRun
from nki.profiling.html import charts, payload, sections
from nki.profiling.html.answer import answer
from nki.profiling.html.markup import Markup, joined, tag
from nki.profiling.html.measured_times import measured
from nki.profiling.html.source_listing import Listing
from nki.profiling.summary import SOURCE

SCRIPTS = (
    "decode.js",
    "model.js",
    "theme.js",
    "view.js",
    "paint.js",
    "timeline.js",
    "details.js",
    "search.js",
    "lines.js",
    "input.js",
    "main.js",
)
"""The scripts, in the order in which they are joined; each sees what those before it define."""
STYLES = ("page.css", "timeline.css")
STEP_STYLES = ("page.css", "step.css")
"""Of the report of a step, which needs no script."""
COLUMNS = ("Critical path", "Busy", "HBM", "Runs", "Line")
"""Columns of the source."""
SHORT = 30
"""Lines of source that have the height that they need; more of them scroll beside the column on their right."""
KEYS = (
    ("W S, + −, wheel", "zoom"),
    ("A D, ← →, drag", "move"),
    ("Shift and drag", "zoom to a range"),
    ("0", "show everything"),
    ("/", "search; Enter goes to the next match"),
    ("N, Shift N", "next match, match before"),
    ("[ ]", "instruction before, after, on the same queue"),
    ("B", "instruction that the selected one waited for"),
    ("F", "zoom to the selected instruction"),
    ("C", "critical path on and off"),
    ("?", "these keys on and off"),
    ("Esc", "select nothing"),
)
"""Keys of the timeline, with their meaning."""


def render(profile: AdvisedRun, against: MeasuredRun | None = None) -> str:
    """The report as the text of an HTML file, in UTF-8; with the capture ``against`` which it stands."""
    listing = Listing(profile)
    script = '(() => {\n"use strict";\n' + "".join(map(_asset, SCRIPTS)) + "})();\n"
    description, columns = payload.encoded(profile, listing)
    body = joined(
        _body(profile, listing, against),
        tag("script", Markup(description), type="application/json", id="profile"),
        tag("script", Markup(columns), type="application/octet-stream", id="columns"),
    )
    return page(f"{profile.name} on {profile.target} · profile", body, STYLES, script)


def page(title: str, body: Markup, styles: Sequence[str], script: str = "") -> str:
    """An HTML file with ``styles``, by the names of their files, and a script behind its body; it may load nothing."""
    style = "".join(map(_asset, styles))
    scripts = f"'{_digest(script)}'" if script else "'none'"
    policy = f"default-src 'none'; script-src {scripts}; style-src '{_digest(style)}'; img-src data:"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=SOURCE),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", Markup(style)),
    )
    last = tag("script", Markup(script)) if script else None
    return f"<!doctype html>\n{tag('html', head, tag('body', body, last), lang='en')}\n"


def _body(profile: AdvisedRun, listing: Listing, against: MeasuredRun | None) -> Markup:
    source = tag(
        "section",
        tag("h2", "Source", tag("span", "A click on a line highlights its instructions.", class_="note")),
        tag(
            "div",
            [tag("span", name, title=sections.meaning(name)) for name in COLUMNS],
            class_="columns",
            aria_hidden="true",
        ),
        tag("div", listing.markup(), class_="listing", tabindex=0, role="region", aria_label="Source lines"),
        class_="card source long" if listing.length > SHORT else "card source",
        aria_label="Source",
    )
    advice = sections.advice(profile.advice, listing)
    side = tag("div", _details(), advice, sections.steps(profile, listing), class_="side")
    main = tag(
        "main",
        answer(profile, listing),
        None if against is None else measured(against),
        _timeline(),
        tag("div", source, side, class_="pair"),
        tag("div", sections.engines(profile), sections.instructions(profile), class_="halves"),
        sections.calls(profile, listing),
        tag("div", charts.roofline(profile), charts.memory(profile), sections.transfers(profile), class_="trio"),
    )
    return joined(sections.head(profile), main)


def _timeline() -> Markup:
    search = tag(
        "div",
        tag("input", type="search", id="search", placeholder="Search ( / ): instruction, line, tensor",
            aria_label="Search", aria_describedby="matches", autocomplete="off", spellcheck="false"),
        tag("output", id="matches", for_="search"),
        class_="search", role="search",
    )  # fmt: skip
    controls = [
        tag("button", "Critical path", id="critical", aria_pressed="true", title="C"),
        tag("button", "−", id="out", aria_label="Zoom out", title="S or −"),
        tag("button", "+", id="in", aria_label="Zoom in", title="W or +"),
        tag("button", "All", id="all", aria_label="Show everything", title="0"),
        tag("button", "Keys", id="keys", aria_expanded="false", aria_controls="help"),
        tag("button", "Dark", id="theme", aria_pressed="false"),
    ]
    buttons = tag("div", controls, class_="buttons")
    keys = tag("dl", [tag("div", tag("dt", key), tag("dd", meaning)) for key, meaning in KEYS], id="help", hidden=True)
    canvas = tag(
        "canvas",
        id="timeline",
        tabindex=0,
        role="application",
        aria_label="Timeline of the instructions on each queue. Keys move and zoom; the button Keys lists them.",
        aria_describedby="said",
    )
    return tag(
        "section",
        tag(
            "div",
            tag("h2", "Timeline"),
            tag("output", id="range"),
            search,
            tag("div", buttons, class_="buttons"),
            class_="bar",
        ),
        keys,
        tag("canvas", id="overview", aria_hidden="true"),
        tag("div", canvas, class_="stage"),
        _legend(),
        tag("p", id="said", role="status", aria_live="polite", class_="unseen"),
        tag("div", id="tip", hidden=True, aria_hidden="true"),
        tag("noscript", tag("p", "The timeline needs JavaScript; all tables below are here without it.")),
        class_="card timeline",
        aria_label="Timeline",
    )


def _legend() -> Markup:
    entries = [
        tag("li", tag("svg", shape, viewBox="0 0 18 9", aria_hidden="true"), text)
        for shape, text in (
            (tag("rect", y=6, width=18, height=3, class_="fill-critical"), "critical path"),
            (tag("path", d="M0 9L9 0M9 9L18 0", class_="hatched"), "Tensor clock throttled"),
            (tag("rect", width=18, height=9, class_="fill-table"), "activation table is loaded"),
            (tag("rect", width=18, height=3, class_="fill-issue"), "DMA: descriptors"),
            (tag("rect", y=3, width=18, height=6, class_="fill-dma"), "DMA: data"),
        )
    ]
    entries.append(tag("li", "Wheel or W S zoom, drag or A D move, ? lists all keys", class_="hint"))
    return tag("ul", entries, class_="legend")


def _details() -> Markup:
    hint = "Select an instruction in the timeline to see its times and its reason to wait."
    content = tag("div", tag("p", hint, class_="note"), id="details")
    return tag("section", tag("h2", "Instruction"), content, class_="card details", aria_label="Instruction")


def _asset(name: str) -> str:
    return resources.files(__name__).joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
