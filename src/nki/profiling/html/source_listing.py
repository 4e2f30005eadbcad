"""The source beside a report: the functions with lines that it tells about, and the cost of each line of a profile."""

from __future__ import annotations

import ast
import io
import keyword
import linecache
import token
import tokenize
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nki.base.source import Span, is_own
from nki.profiling.html import quantities
from nki.profiling.html.markup import Markup, joined, strip, tag
from nki.profiling.metrics import Cost
from nki.profiling.predicted_run import PredictedRun

_AROUND = 2
"""Lines shown before and after one that is in no function."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line with instructions: its short name, and its text."""

    label: str
    code: str


@dataclass(frozen=True, slots=True)
class Section:
    """Consecutive lines of a file, the first and the last included, as a function or a part of the module."""

    file: str
    name: str
    first: int
    last: int

    def lines(self) -> range:
        return range(self.first, self.last + 1)


class SourceListing(ABC):
    """Lines that a report tells something about, by number, and the sections of the files around them.

    Only files that reports may show are read (:func:`nki.base.source.is_own`).
    """

    columns = 4
    """Cells in front of the number of a line."""

    def __init__(self, told: Iterable[Span]) -> None:
        self.spans = sorted(told, key=lambda span: (span.file, span.line))
        self.places: list[Place] = []
        self._numbers: dict[tuple[str, int], int] = {}
        names = short_names(span.file for span in self.spans)
        for span in self.spans:
            self._numbers[span.file, span.line] = len(self.places)
            code = _lines(span.file)[span.line - 1 : span.line]
            self.places.append(Place(f"{names[span.file]}:{span.line}", "".join(code).strip()))
        self.names = names
        self.sections = [section for file in names for section in self._sections(file)]

    @abstractmethod
    def cells(self, number: int, line: int) -> list[Markup]:
        """The cells of the line ``line`` that has ``number``, and the one with its number in the file."""

    @abstractmethod
    def part(self, numbers: Iterable[int]) -> float:
        """The part of the whole that the lines with ``numbers`` have."""

    def number(self, span: Span | None) -> int:
        """The number of a line, or -1."""
        return -1 if span is None else self._numbers.get((span.file, span.line), -1)

    def label(self, span: Span) -> str:
        """The short name of a line, which may have no instructions of its own."""
        return f"{self.names.get(span.file) or Path(span.file).name}:{span.line}"

    def _sections(self, file: str) -> list[Section]:
        count = len(_lines(file))
        wanted = [line for name, line in self._numbers if name == file]
        if not count:
            return [Section(file, "no source", line, line) for line in wanted]
        functions = _functions("".join(_lines(file)))
        sections: dict[tuple[int, int], Section] = {}
        for line in wanted:
            around = [f for f in functions if f.first <= line <= f.last]
            outermost = min(around, key=lambda f: f.first) if around else None
            if outermost is None:
                outermost = Section("", "", max(1, line - _AROUND), min(count, line + _AROUND))
            key = (outermost.first, outermost.last)
            sections[key] = Section(file, outermost.name, *key)
        return [sections[key] for key in sorted(sections)]

    @property
    def length(self) -> int:
        """Lines that the listing shows."""
        return sum(len(section.lines()) for section in self.sections)

    def markup(self) -> Markup:
        """The sections as tables, one row for each line."""
        coloured = {file: _highlighted(file) for file in self.names}
        return joined(*(self._section(section, coloured[section.file]) for section in self.sections))

    def _section(self, section: Section, coloured: dict[int, Markup]) -> Markup:
        rows = [self._row(section.file, line, coloured) for line in section.lines()]
        numbers = [self._numbers.get((section.file, line), -1) for line in section.lines()]
        part = self.part(number for number in numbers if number >= 0)
        name = tag("b", section.name or "module")
        where = tag("span", f"{self.names[section.file]}:{section.first}", class_="where")
        head = tag("summary", name, " ", where, tag("span", quantities.percent(part), class_="part"))
        return tag("details", head, tag("table", tag("tbody", rows)), open=True, class_="function")

    def _row(self, file: str, line: int, coloured: dict[int, Markup]) -> Markup:
        number = self._numbers.get((file, line), -1)
        code = tag("td", coloured.get(line, ""), class_="code")
        if number < 0:
            return tag("tr", tag("td", colspan=self.columns), tag("td", line, class_="n"), code)
        return tag("tr", self.cells(number, line), code, data_line=number)


class Listing(SourceListing):
    """The lines of a profile that have instructions, with their costs."""

    def __init__(self, profile: PredictedRun) -> None:
        self.profile = profile
        super().__init__(span for span in profile.lines if span is not None)
        self.costs: list[Cost] = [profile.lines[span] for span in self.spans]
        self._path = sum(cost.critical for cost in profile.lines.values()) or 1.0
        self._most = max((cost.critical for cost in self.costs), default=0.0) or 1.0

    def part(self, numbers: Iterable[int]) -> float:
        return sum(self.costs[number].critical for number in numbers) / self._path

    def markup(self) -> Markup:
        blocks = [super().markup()]
        unknown = self.profile.lines.get(None)
        if unknown is not None:
            blocks.append(tag("p", f"Instructions without a line: {quantities.time(unknown.busy)}.", class_="note"))
        return joined(*blocks)

    def cells(self, number: int, line: int) -> list[Markup]:
        cost = self.costs[number]
        part = cost.critical / self._path
        width = 100 * cost.critical / self._most
        label = f"line {line}: highlight its {quantities.count(cost.executions)} instructions in the timeline"
        bar = strip([tag("rect", width=max(width, 1.0) if part else 0, height=10)])
        return [
            tag("td", bar, tag("span", quantities.percent(part)) if part >= 0.0005 else "", class_="critical"),
            tag("td", quantities.time(cost.busy)),
            tag("td", quantities.size(cost.hbm_bytes) if cost.hbm_bytes else ""),
            tag("td", f"{quantities.count(cost.executions)}×"),
            tag("td", tag("button", line, aria_pressed="false", aria_label=label), class_="n"),
        ]


def short_names(files: Iterable[str]) -> dict[str, str]:
    """Each file by its last part, with its folder where two have the same; whole paths say too much of a machine."""
    distinct = list(dict.fromkeys(files))
    names = {file: Path(file).name or file for file in distinct}
    taken = list(names.values())
    return {file: "/".join(Path(file).parts[-2:]) if taken.count(name) > 1 else name for file, name in names.items()}


def _lines(file: str) -> list[str]:
    return linecache.getlines(file) if is_own(file) else []


def _functions(text: str) -> list[Section]:
    """The functions of a file, inner ones too; none if Python cannot parse it."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        Section("", node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or 0)
        for node in ast.walk(tree)
        if isinstance(node, kinds)
    ]


def _highlighted(file: str) -> dict[int, Markup]:
    """The lines of a file, with keywords, comments, strings and numbers marked if Python can read its tokens."""
    lines = [line.rstrip("\n") for line in _lines(file)]
    marks: dict[int, list[tuple[int, int, str]]] = {}
    try:
        for each in tokenize.generate_tokens(io.StringIO("".join(_lines(file))).readline):
            kind = _kind(each)
            if not kind:
                continue
            for line in range(each.start[0], each.end[0] + 1):
                begin = each.start[1] if line == each.start[0] else 0
                end = each.end[1] if line == each.end[0] else len(lines[line - 1])
                marks.setdefault(line, []).append((begin, end, kind))
    except (tokenize.TokenError, SyntaxError, IndexError):
        marks = {}
    return {number: _marked(line, marks.get(number, [])) for number, line in enumerate(lines, 1)}


def _kind(each: tokenize.TokenInfo) -> str:
    if each.type == token.NAME and keyword.iskeyword(each.string):
        return "k"
    name = token.tok_name[each.type]
    if name.startswith("FSTRING"):
        return "s"
    return {"COMMENT": "c", "STRING": "s", "NUMBER": "m"}.get(name, "")


def _marked(line: str, marks: list[tuple[int, int, str]]) -> Markup:
    parts: list[str | Markup] = []
    position = 0
    for begin, end, kind in sorted(marks):
        if begin < position:
            continue
        parts += [line[position:begin], tag("span", line[begin:end], class_=kind)]
        position = end
    return joined(*parts, line[position:])
