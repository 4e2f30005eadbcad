"""The report as a file: its data, its markup, its policy. tests/profiling/test_html_browser.py opens it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nki.base.source import Span
from nki.base.terms import Cause
from nki.ir.estimate import Dma
from nki.profiling import html
from nki.profiling.advice import Advice
from nki.profiling.html import charts, payload, quantities, sections
from nki.profiling.html.answer import answer, path_parts
from nki.profiling.html.markup import Markup, joined, tag
from nki.profiling.html.source_listing import Listing, short_names
from nki.profiling.kernel_profile import Profile
from nki.profiling.metrics import MemoryUse
from tests.profiling.kernels import profiled_halves
from tests.support import profiled_kernels as kernels

ASSETS = Path(html.__file__).parent / "assets"
VOID = {"meta", "link", "input"}


@pytest.fixture(scope="module")
def layer() -> Profile:
    return kernels.of_layer()


class Parsed(HTMLParser):
    """Elements and text of a page; fails if an element is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)

    def count(self, name: str) -> int:
        return sum(each == name for each, _ in self.elements)


def data_of(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The description and the columns in a report."""
    description = re.search(r'<script type="application/json" id="profile">(.*?)</script>', text, re.DOTALL)
    columns = re.search(r'<script type="application/octet-stream" id="columns">(.*?)</script>', text, re.DOTALL)
    assert description and columns
    return json.loads(description[1]), json.loads(zlib.decompress(base64.b64decode(columns[1])))


@pytest.mark.parametrize("make", [kernels.of_layer, kernels.of_looped, kernels.of_in_turn, kernels.of_one_works])
def test_the_columns_hold_the_events(make: Any) -> None:
    profile = make()
    description, data = data_of(html.render(profile))
    for core, written, columns in zip(profile.cores, description["cores"], data["cores"], strict=True):
        rows = {name: np.array(column) for name, column in columns["rows"].items()}
        assert {len(column) for column in rows.values()} == {len(core)}
        assert np.cumsum(rows["number"]).tolist() == core.number.tolist()
        start = np.cumsum(rows["start"])
        release = start + rows["release"]
        end = release + rows["end"]
        for column, ticks in ((core.start, start), (core.release, release), (core.end, end)):
            assert (np.abs(column - ticks * 0.1) <= 0.0501).all()
        dma = core.is_dma
        assert (rows["isDma"] == dma).all()
        begun = start + rows["dataStart"]
        assert (np.abs(core.data_start - begun * 0.1)[dma] <= 0.0501).all()
        assert (np.abs(core.data_end - (begun + rows["dataEnd"]) * 0.1)[dma] <= 0.0501).all()
        assert rows["cause"].tolist() == core.cause.tolist()
        assert [row - d if d else -1 for row, d in enumerate(rows["blocker"])] == core.blocker.tolist()
        assert rows["weight"].tolist() == core.weight.tolist()
        check_instructions(columns["instructions"], core, written, description)
        for stretches in (columns["tables"], columns["slow"]):
            begins = np.cumsum(stretches["begin"]).tolist()
            assert begins == sorted(begins) and len(begins) == len(stretches["length"])
            assert min(stretches["length"], default=1) > 0
        waits = [(row, m.last.core, m.last.record) for row, m in core.meetings.items() if m.last.time > m.time]
        assert [tuple(each) for each in written["meetings"]] == waits
    path, steps = data["path"], profile.critical_path
    assert path["core"] == [step.core for step in steps]
    assert np.cumsum(path["row"]).tolist() == [step.row for step in steps]
    assert (np.abs(np.cumsum(path["begin"]) * 0.1 - [step.begin for step in steps]) <= 0.0501).all()
    assert sum(path["length"]) == pytest.approx(sum(s.end - s.begin for s in steps) * 10, abs=len(steps))


def check_instructions(columns: Any, core: Any, written: Any, description: Any) -> None:
    operands = iter([description["operands"][n] for n in columns["operand"]])
    for number, inst in enumerate(core.instructions):
        row = {name: column[number] for name, column in columns.items() if name != "operand"}
        assert written["queues"][row["queue"]] == inst.queue
        assert description["mnemonics"][row["mnemonic"]] == inst.mnemonic
        assert description["lines"][row["line"]]["label"] == f"profiled_kernels.py:{inst.where.span.line}"
        estimate = written["estimates"][row["estimate"]]
        price = core.estimates[number]
        assert estimate[0] == (price.bytes if isinstance(price, Dma) else 0) and estimate[3] == price.kind
        assert description["sources"][estimate[4]] == price.source
        assert [next(operands).split(" ")[0] for _ in range(row["writes"])] == [each.name for each in inst.writes()]
        assert [next(operands).split(" ")[0] for _ in range(row["reads"])] == [each.name for each in inst.reads()]
    assert next(operands, None) is None


def test_iterations_that_were_not_replayed_are_a_gap() -> None:
    profile = kernels.of_looped()
    (core,) = profile.cores
    (skip,) = core.timeline.skips
    begin, end, times = skip.begin, skip.end, skip.iterations
    assert times == 1000 - int((core.weight == 1).sum() - 2) - 1
    one = float(core.start[core.weight > 1][0] - core.start[np.flatnonzero(core.weight > 1)[0] - 1])
    assert end - begin == pytest.approx(times * one, rel=0.01)


def test_a_throttled_window_is_longer_by_the_iterations_in_it() -> None:
    clock = SimpleNamespace(length=100.0, windows=[0.5, 0.5, 1.0, 0.5])
    resources = SimpleNamespace(array=SimpleNamespace(clock=clock))
    core: Any = SimpleNamespace(timeline=SimpleNamespace(replay=SimpleNamespace(resources=resources)))
    assert payload.throttled(core, []) == [(0.0, 200.0), (300.0, 400.0)]
    assert payload.throttled(core, [(150.0, 650.0, 9)]) == [(0.0, 700.0), (800.0, 900.0)]


def test_a_thinned_curve_keeps_its_peak() -> None:
    use = MemoryUse(0, "sbuf", tuple(map(float, range(1000))), (*range(499), 9999, *range(499), 1, 0))
    times, used = payload.thinned(use, 50)
    assert len(times) == len(used) == 50
    assert max(used) == use.peak == 9999 and used[-1] == 0
    assert payload.thinned(use, 2000) == (list(use.times), list(use.used))


def test_every_cause_has_its_words() -> None:
    assert all(cause.reason for cause in Cause), "a row of Cause has no end of a sentence"
    assert sorted(Cause) == list(range(len(Cause))), "a new row of Cause has the next number"


@pytest.mark.parametrize(
    "make", [kernels.of_layer, kernels.of_looped, profiled_halves, kernels.of_one_works, kernels.of_hostile]
)
def test_the_page_is_well_formed_and_asks_for_nothing(make: Any) -> None:
    page = Parsed(html.render(make()))
    addresses = [
        value
        for _, attributes in page.elements
        for key, value in attributes.items()
        if key in ("src", "href", "action")
    ]
    assert [address for address in addresses if not address.startswith("#")] == ["data:,"]
    assert not any(key.startswith("on") or key == "style" for _, each in page.elements for key in each)
    assert page.count("script") == 3 and page.count("style") == 1
    identifiers = [each["id"] for _, each in page.elements if "id" in each]
    assert len(identifiers) == len(set(identifiers))


def test_the_policy_allows_this_script_and_style_only(layer: Profile) -> None:
    text = html.render(layer)
    policy = next(a["content"] for t, a in Parsed(text).elements if a.get("http-equiv") == "Content-Security-Policy")
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (*script, *style)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; img-src data:"
    )


def test_the_assets_use_nothing_that_makes_markup_or_requests() -> None:
    names = {file.name for file in ASSETS.iterdir()}
    assert names == {*html.SCRIPTS, *html.STYLES, *html.STEP_STYLES}
    for file in ASSETS.iterdir():
        text = file.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 500, file
        assert file.suffix == ".css" or max(map(len, text.splitlines())) <= 120, file
        for word in ("innerHTML", "outerHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest", "url(", "@import",
                     "http:", "https:", "insertAdjacentHTML"):  # fmt: skip
            assert word not in text, (file, word)


def test_what_kernels_are_called_is_text() -> None:
    profile = kernels.of_hostile()
    text = html.render(profile)
    page = Parsed(text)
    assert "".join(page.texts["h1"]) == kernels.HOSTILE
    assert page.count("img") == 0
    assert "window.stolen" in text
    description, _ = data_of(text)
    assert description["name"] == kernels.HOSTILE
    assert any(operand.startswith(kernels.HOSTILE) for operand in description["operands"])
    assert any("</script><script>" in line["code"] for line in description["lines"])


def test_the_head_says_what_it_is(layer: Profile) -> None:
    head = "".join(ET.fromstring(sections.head(layer)).itertext())
    for words in ("layer", "trn2", "Prediction of a model, no measurement.", quantities.time(layer.latency * 1e9)):
        assert words in head
    assert layer.lower_bound.resource == "descriptors (sync)" and "DMA descriptors of sync" in head


def test_each_line_has_its_cost(layer: Profile) -> None:
    listing = Listing(layer)
    rows = ET.fromstring(tag("div", listing.markup())).iter("tr")
    marked = {int(row.attrib["data-line"]): ["".join(cell.itertext()) for cell in row] for row in rows if row.attrib}
    assert len(marked) == len(layer.lines) == 6
    for span, cost in layer.lines.items():
        assert span is not None
        critical, busy, moved, executions, line, code = marked[listing.number(span)]
        assert (line, busy, executions) == (str(span.line), quantities.time(cost.busy), f"{cost.executions}×")
        assert moved == (quantities.size(cost.hbm_bytes) if cost.hbm_bytes else "")
        assert bool(critical) == (cost.critical > 0)
        assert code.strip().startswith("nisa.")


def test_source_that_may_not_be_shown_is_not_read(layer: Profile, tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text("password = 1\n" * 9)
    other: Any = SimpleNamespace(lines={Span(str(secret), 3): next(iter(layer.lines.values()))})
    text = Listing(other).markup()
    assert "password" not in text and ">3</button>" in text


def test_files_with_one_name_show_their_folders() -> None:
    assert short_names(["/a/b/k.py", "/a/c/k.py", "/x/m.py"]) == {
        "/a/b/k.py": "b/k.py",
        "/a/c/k.py": "c/k.py",
        "/x/m.py": "m.py",
    }


def test_source_that_is_no_python_is_shown_plainly(layer: Profile, tmp_path: Path) -> None:
    from nki.base.source import note_file

    odd = tmp_path / "odd.py"
    odd.write_text("def f(:\n  'open\n\t<b>\n" * 3)
    note_file(str(odd))
    other: Any = SimpleNamespace(lines={Span(str(odd), 3): next(iter(layer.lines.values()))})
    text = Listing(other).markup()
    assert "&lt;b&gt;" in text and "module" in text
    other.lines = {Span("<string>", 3): next(iter(layer.lines.values()))}
    assert "no source" in Listing(other).markup()


def test_advice_is_shown_with_its_worth(layer: Profile) -> None:
    line = next(span for span in layer.lines if span)
    entries = [
        Advice(title="small <transfers>", evidence="12 of 13", remedy="batch", seconds=1e-6, lines=()),
        Advice(title="float32", evidence="e", remedy="r", seconds=2.5e-6, lines=(line, Span("x.py", 1))),
    ]
    text = sections.advice(entries, Listing(layer))
    assert text.index("float32") < text.index("small &lt;transfers&gt;")
    assert "−2.50 µs" in text and "−1.00 µs" in text
    assert text.count("data-line=") == 1
    assert "No change that the model knows gains 2% of the latency." in sections.advice([], Listing(layer))


def test_the_report_shows_the_advice_of_its_profile() -> None:
    profile = kernels.of_layer(2)
    vars(profile)["advice"] = [Advice(title="Do this", evidence="e", remedy="r", seconds=1e-6, lines=())]
    assert "Do this" in html.render(profile)


@pytest.mark.parametrize("make", [kernels.of_layer, kernels.of_looped, kernels.of_in_turn])
def test_the_answer_comes_first_and_its_parts_are_the_latency(make: Any) -> None:
    profile = make()
    text = html.render(profile)
    assert text.index("Change first") < text.index('id="timeline"')
    parts = path_parts(profile)
    assert sum(ns for _, ns, _ in parts) == pytest.approx(profile.latency * 1e9, rel=0.01)
    assert parts[0] == ("launch", profile.launch_time * 1e9, "fill-launch")


def test_the_answer_names_the_most_valuable_advice(layer: Profile) -> None:
    text = answer(layer, Listing(layer))
    best = max(layer.advice, key=lambda each: each.seconds)
    assert joined(best.title) in text and f"−{quantities.time(best.seconds * 1e9)}" in text
    assert f"{quantities.time(layer.lower_bound.seconds * 1e9)} at least" in text


def test_the_answer_says_that_a_worth_is_a_bound() -> None:
    profile = kernels.of_layer(2)
    vars(profile)["advice"] = [Advice("Do this", "e", "r", 1e-6, (), at_most=True)]
    assert "up to −1.00 µs" in answer(profile, Listing(profile))


def test_a_name_of_a_program_stays_as_it_is() -> None:
    assert quantities.sentence("nisa.activation has scale=") == "nisa.activation has scale="
    assert quantities.sentence("dge_mode= of it") == "dge_mode= of it"
    assert quantities.sentence("each of 2 cores") == "Each of 2 cores"


def test_memory_that_no_tile_uses_has_no_chart() -> None:
    profile = kernels.of_looped()  # in SBUF only
    text = charts.memory(profile)
    assert "SBUF" in text and text.count("<svg") == 1 and "Not used: PSUM." in text


def test_the_roofline_holds_the_point_of_the_kernel(layer: Profile) -> None:
    text = charts.roofline(layer)
    assert quantities.rate(layer.flops / layer.device_time, "FLOP/s") in text
    assert "circle" in text and "transfers" in text
    without = charts.roofline(kernels.of_looped())
    assert "circle" not in without and "no matrix products" in without


def test_the_report_is_written_where_the_caller_says(layer: Profile, tmp_path: Path) -> None:
    file = layer.to_html(tmp_path / "report.html")
    assert file == tmp_path / "report.html"
    assert file.read_text(encoding="utf-8") == html.render(layer)


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        (quantities.time(0), "0 ns"),
        (quantities.time(999.6), "1.00 µs"),
        (quantities.time(12345), "12.3 µs"),
        (quantities.time(2.5e9), "2.50 s"),
        (quantities.size(100), "100 B"),
        (quantities.size(1536), "1.50 KiB"),
        (quantities.rate(91.8e12, "FLOP/s"), "91.8 TFLOP/s"),
        (quantities.percent(0.0123), "1.2 %"),
        (quantities.percent(0.5), "50 %"),
    ],
)
def test_numbers_have_three_digits(shown: str, wanted: str) -> None:
    assert shown == wanted


def test_markup_escapes_what_is_not_markup() -> None:
    assert tag("a", "<b>", title='"<') == '<a title="&quot;&lt;">&lt;b&gt;</a>'
    assert tag("a", Markup("<b>"), [None, 1.5], hidden=True, class_="x", data_line=0, id=None) == (
        '<a hidden="" class="x" data-line="0"><b>1.5</a>'
    )
    assert joined("a", ["<", [Markup("<")]]) == "a&lt;<"
