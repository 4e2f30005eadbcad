"""Profiles and comparisons as text, and as tables in notebooks."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest

from nki.base.source import Span
from nki.profiling import amounts, text
from nki.profiling.kernel_profile import Profile
from nki.profiling.metrics import EngineUse


def test_the_first_line_is_the_answer(product):
    first = str(product).splitlines()[0]
    low, high = (amounts.duration(end) for end in product.interval)
    assert first == f"product on trn2: {amounts.duration(product.latency)}, between {low} and {high}"


def test_the_report_fits_a_terminal_and_has_every_part(product):
    lines = str(product).splitlines()
    report, words = lines[: lines.index("  words")], lines[lines.index("  words") :]
    assert max(map(len, lines)) <= 110 and len(report) < 50 and len(words) <= 12
    report = str(product)
    for part in (
        "of launch",
        "at least",
        "MFU",
        "MBU",
        "ridge",
        "waiting for",
        "DMA transfers",
        "critical",
        "most memory",
    ):
        assert part in report
    for engine in ("tensor", "vector", "scalar", "dma"):
        assert re.search(rf"^  {engine} +[█▒·]{{{text.BAR}}} +[\d.]+ %", report, re.MULTILINE)
    assert "tests/profiling/kernels.py:" in report and "nisa.nc_matmul(" in report


def test_shares_of_lines_are_shares_of_the_critical_path(product):
    shown = dict(re.findall(r"(\S+kernels\.py:\d+) +([\d.]+) %", str(product)))
    assert shown
    for span, cost in product.lines.items():
        if amounts.place(span) in shown:
            share = 100 * cost.critical / product.timeline.ns
            assert float(shown[amounts.place(span)]) == pytest.approx(share, abs=0.051)


def test_repr_is_one_line(product):
    assert "\n" not in repr(product) and "product on trn2" in repr(product)
    assert "\n" not in repr(product.compare(product))


@pytest.mark.parametrize(
    ("busy", "stalled", "expected"),
    [
        (0, 0, "·" * 24),
        (100, 0, "█" * 24),
        (50, 50, "█" * 12 + "▒" * 12),
        (0.1, 0.1, "█▒" + "·" * 22),
        (100, 9, "█" * 24),
    ],
)
def test_bars(busy, stalled, expected):
    use = EngineUse(0, "vector", busy, 0.0, 0.0, 1, {"order": stalled} if stalled else {})
    assert text.bar(use, 100.0) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(2.5, "2.50 s"), (1e-3, "1.00 ms"), (15.58e-6, "15.6 µs"), (99.96e-6, "100 µs"), (810e-9, "810 ns"), (0, "0 ns")],
)
def test_durations(seconds, expected):
    assert amounts.duration(seconds) == expected


def test_units():
    assert [amounts.size(n) for n in (0, 1023, 1024, 3 << 20)] == ["0 B", "1023 B", "1.00 KiB", "3.00 MiB"]
    assert [amounts.number(n) for n in (0, 999, 604e6, 2e12)] == ["0 ", "999 ", "604 M", "2.00 T"]
    assert amounts.count(1, "line") == "1 line" and amounts.count(2000, "line") == "2,000 lines"
    assert amounts.place(None) == "(no line)"


def test_two_cores_have_their_own_rows(halves):
    assert re.search(r"^  0\.vector", str(halves), re.MULTILINE)
    assert re.search(r"^  1\.vector", str(halves), re.MULTILINE)


def test_a_comparison_shows_both_and_their_difference(product):
    faster = product.what_if(dma_completion_ns=0.0)
    comparison = product.compare(faster)
    rows = str(comparison).splitlines()
    latency = next(row for row in rows if row.strip().startswith("latency"))
    change = 100 * (faster.latency - product.latency) / product.latency
    assert amounts.duration(product.latency) in latency and amounts.duration(faster.latency) in latency
    assert latency.endswith(f"{change:+.1f} %") and change < 0
    speedup = next(row for row in rows if row.strip().startswith("speedup"))
    assert speedup.endswith(f"{comparison.speedup:.2f} x")
    assert any("kernels.py" in row for row in rows)


def test_shares_differ_in_points(product):
    faster = product.what_if(tensor_clock=4.0)
    row = next(row for row in str(product.compare(faster)).splitlines() if row.strip().startswith("MFU"))
    assert row.endswith(f"{100 * (faster.mfu - product.mfu):+.1f} points")


def test_advice_is_shown_if_there_is_some(product, monkeypatch):
    @dataclasses.dataclass
    class Advice:
        title: str = "transfers of 256 bytes"
        evidence: str = "12 transfers move 3 KiB"
        remedy: str = "load whole rows"
        seconds: float = 1.5e-6
        lines: tuple[Span, ...] = (Span("/somewhere/else/kernel.py", 3),)
        at_most: bool = False
        condition: str = ""

    monkeypatch.setitem(vars(product), "advice", [])
    assert "  no advice: no change that the model knows gains 2% of the latency" in str(product)
    many = Advice("reloads", "", "", 1e-6, tuple(Span("/somewhere/else/kernel.py", line) for line in range(1, 7)), True)
    monkeypatch.setitem(vars(product), "advice", [Advice(), many])
    report = str(product)
    assert "  1.50 µs less: transfers of 256 bytes (kernel.py:3)\n" in report
    assert "    12 transfers move 3 KiB\n    load whole rows" in report
    assert "  up to 1.00 µs less: reloads (kernel.py:1, kernel.py:2, kernel.py:3, 3 others)" in report


class Tags(HTMLParser):
    """The tags of a page in order, its text, and a check that they nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_a_notebook_gets_tables_without_scripts(product):
    page = Tags(product._repr_html_())
    assert "script" not in page.seen and page.seen.count("table") == 2
    assert amounts.duration(product.latency) in page.words and "kernels.py" in page.words
    compared = Tags(product.compare(product.what_if(dma_bandwidth=2.0))._repr_html_())
    assert "script" not in compared.seen and "speedup" in compared.words


def test_names_cannot_become_markup(product, monkeypatch):
    monkeypatch.setattr(Profile, "name", "<script>alert(1)</script>")
    page = Tags(product._repr_html_())
    assert "script" not in page.seen and "<script>" in page.words
    assert "script" not in Tags(product.compare(product)._repr_html_()).seen


@pytest.mark.parametrize("width", [60, 67, 80, 93, 100, 160])
def test_the_text_fits_its_terminal(product, width):
    written = text.report(product, width)
    assert not any(line.lstrip().startswith("%") for line in written.splitlines())
    assert max(map(len, written.splitlines())) <= width
    causes = " ".join(cause.removeprefix("waits for ") for use in product.engines for cause in use.stalls)
    assert set(causes.split()) <= set(written.replace(",", " ").split()), "causes wrap, and are not cut"
