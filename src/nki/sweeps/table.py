"""The table of a sweep: its rows, as text, as a Parquet file and as a page for a browser."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from nki.base.errors import NkiError
from nki.base.profile_errors import ProfileFileError
from nki.base.sweep_errors import FailedPointsError
from nki.base.version import version
from nki.base.wording import plural, shown_path
from nki.profiling.amounts import duration
from nki.profiling.html.markup import Markup, tag
from nki.profiling.packages import needed
from nki.sweeps.plan import Planned
from nki.sweeps.record import MEANINGS, Outcome, Row, Status

SHOWN: Final = 20
"""Rows of the text."""
_STYLE: Final = """
:root { color-scheme: light dark; }
body { margin: 0; padding: 12px 14px; font: 13px/1.45 system-ui, sans-serif; }
h1 { font-size: 18px; margin: 0 0 8px; }
table { border-collapse: collapse; margin: 12px 0; }
th, td { padding: 2px 10px; text-align: left; border-bottom: 1px solid light-dark(#dde1e7, #2e333c); }
th { position: sticky; top: 0; background: light-dark(#f4f5f7, #1c1f25); }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.bad td { background: light-dark(#fbe9ea, #43262a); }
footer { color: light-dark(#5d6675, #98a1b0); }
"""


class Failure(NamedTuple):
    """Points that fail in one way: the kind, the code and the place, the message of the first, and all of them."""

    status: Status
    code: str
    file: str | None
    line: int | None
    message: str
    rows: list[Row]

    @property
    def place(self) -> str:
        return f"{shown_path(self.file)}:{self.line}" if self.file else ""


def row(planned: Planned, found: Outcome, kept: bool) -> Row:
    """The row of a point."""
    point = planned.point
    return {
        **found,
        "values": dict(point.values),
        "arguments": list(planned.texts),
        "target": planned.target,
        "release": point.release,
        "cores": point.cores,
        "seed": point.seed,
        "kept": kept,
    }


@dataclass(frozen=True)
class Table:
    """The rows of a sweep of ``kernel``, in the order of the space; ``judged``: a reference has looked at them."""

    kernel: str
    rows: tuple[Row, ...]
    judged: bool = False
    unkept: int = 0
    """Points with outcomes that cannot be kept: the kernel has no fingerprint, or the reference no name."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def failures(self) -> list[Failure]:
        """The points that fail, by kind, code and line; the kind with the most points first."""
        groups: dict[tuple[Any, ...], Failure] = {}
        for each in self.rows:
            if each["status"] != "ok":
                key = each["status"], each["code"], each["file"], each["line"]
                group = groups.setdefault(key, Failure(*key, each["message"], []))
                group.rows.append(each)
        return sorted(groups.values(), key=lambda group: -len(group.rows))

    @property
    def failed(self) -> int:
        """The number of points that fail."""
        return sum(each["status"] != "ok" for each in self.rows)

    def check(self) -> Table:
        """The table itself if no point fails; for tests.

        Else raises the first error if all points fail alike with an error of sweeps, such as
        :class:`WrongResultError`, and :class:`FailedPointsError` otherwise.
        """
        failures = self.failures
        if not failures:
            return self
        first = failures[0]
        kind = NkiError.registry.get(first.code)
        at = f"at {_at(first.rows[0])}: "
        if len(failures) == 1 and kind is not None and first.code.startswith("NKI-SW"):
            raise kind(at + first.message.partition("; fix: ")[0], fix=first.message.partition("; fix: ")[2])
        raise FailedPointsError(
            f"{self.failed} of {plural(len(self.rows), 'point')} fail; {at}[{first.code}] {first.message}",
            fix="print the table: it has each kind of failure, with its line",
        )

    def __str__(self) -> str:
        return text(self)

    def to_parquet(self, path: str | Path) -> Path:
        """Write the rows to a Parquet file, a column for each field and for each name of the space; the path.

        Raises :class:`MissingPackageError` without ``pyarrow``, :class:`ProfileFileError` if it cannot be written.
        """
        pyarrow = needed("pyarrow", "pyarrow", "to_parquet")
        files = needed("pyarrow.parquet", "pyarrow", "to_parquet")
        with _Writing(path) as file:
            files.write_table(pyarrow.table(self.columns()), file)
        return Path(path)

    def columns(self) -> dict[str, list[Any]]:
        """The rows by column; the names of the space are ``values.NAME``."""
        if not self.rows:
            return {}
        columns: dict[str, list[Any]] = {}
        for name in _names(self.rows):
            values = [each["values"].get(name) for each in self.rows]
            alike = len(set(map(type, values))) == 1
            columns[f"values.{name}"] = values if alike else [json.dumps(value) for value in values]
        for field in self.rows[0]:
            if field != "values":
                columns[field] = [cast("dict[str, Any]", each)[field] for each in self.rows]
        return columns

    def to_html(self, path: str | Path) -> Path:
        """Write a page for a browser, one file that needs no network; the path."""
        with _Writing(path) as file:
            file.write_text(page(self), encoding="utf-8")
        return Path(path)


class _Writing:
    """Context manager: a file that cannot be written is a :class:`ProfileFileError`."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, OSError):
            raise ProfileFileError(
                f"{self.path}: {error.strerror or error}", fix="choose a file that can be written"
            ) from None


def _names(rows: Sequence[Row]) -> list[str]:
    return list(rows[0]["values"])


def _at(each: Row) -> str:
    """A point as text: its names, and what else the space varies."""
    parts = [f"{name}={value}" for name, value in each["values"].items()]
    parts += [each["target"], *(f"{word} {value}" for word, value in _launch(each) if value is not None)]
    return " ".join(parts)


def _launch(each: Row) -> list[tuple[str, Any]]:
    return [("release", each["release"]), ("cores", each["cores"]), ("seed", each["seed"] or None)]


def text(table: Table, shown: int | None = SHOWN) -> str:
    """The table as text: counts, each kind of failure, and the slowest points; ``shown`` of them, None: all."""
    rows = table.rows
    counts = {status: sum(each["status"] == status for each in rows) for status in MEANINGS}
    judged = "" if table.judged else ", no reference"
    kept = sum(each["kept"] for each in rows)
    lines = [
        f"{table.kernel}: {plural(len(rows), 'point')}, "
        + ", ".join(f"{count} {status}" for status, count in counts.items() if count)
        + judged
        + (f" ({kept} kept from before)" if kept else "")
    ]
    if table.unkept:
        why = "the kernel prints or reads what no other process can compare, or the reference has no name"
        lines.append(f"  {plural(table.unkept, 'point')} will run again: {why}")
    for group in table.failures:
        lines.append(f"\n  {plural(len(group.rows), 'point')} {group.status}  {group.code}  {group.place}".rstrip())
        lines.append(f"    {group.message.partition('; fix: ')[0]}")
        lines.append(f"    first at {_at(group.rows[0])}")
    good = sorted((each for each in rows if each["latency"] is not None), key=lambda each: -(each["latency"] or 0))
    if good:
        lines += ["", *_aligned(_header(good), [_cells(each) for each in good[:shown]])]
        if shown is not None and len(good) > shown:
            lines.append(f"  … and {len(good) - shown} faster ones; --rows all, --html or --parquet has them")
    return "\n".join(lines)


def _header(rows: Sequence[Row]) -> list[str]:
    return [*_names(rows), "target", "release", "cores", "seed", "predicted", "interval", "native", "error", ""]


def _cells(each: Row) -> list[str]:
    interval = ""
    if each["latency_min"] is not None and each["latency_max"] is not None:
        interval = f"{duration(each['latency_min'])} – {duration(each['latency_max'])}"
    error = each["error"]
    return [
        *map(str, each["values"].values()),
        each["target"],
        each["release"] or "",
        "" if each["cores"] is None else str(each["cores"]),
        str(each["seed"]),
        "" if each["latency"] is None else duration(each["latency"]),
        interval,
        "" if each["run_seconds"] is None else duration(each["run_seconds"]),
        "" if error is None else f"{error:.1e}",
        each["status"] if each["status"] != "ok" else "",
    ]


def _aligned(header: list[str], rows: list[list[str]]) -> Iterable[str]:
    """Lines of columns; a column without an entry is left out."""
    columns = [n for n in range(len(header)) if any(cells[n] for cells in rows)]
    widths = {n: max(len(cells[n]) for cells in [header, *rows]) for n in columns}
    for cells in [header, *rows]:
        yield ("  " + "  ".join(f"{cells[n]:>{widths[n]}}" for n in columns)).rstrip()


def page(table: Table) -> str:
    """The table as an HTML page."""
    header = [*_header(table.rows)[:-1], "status", "code", "line", "message"] if table.rows else []
    body = [
        tag(
            "tr",
            [
                tag("td", cell, class_="n" if n >= len(each["values"]) else None)
                for n, cell in enumerate(_cells(each)[:-1])
            ],
            tag("td", each["status"]),
            tag("td", each["code"]),
            tag("td", f"{shown_path(each['file'])}:{each['line']}" if each["file"] else ""),
            tag("td", each["message"]),
            class_="bad" if each["status"] != "ok" else None,
        )
        for each in table.rows
    ]
    first = text(table, 0).splitlines()[0]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("title", f"{table.kernel} · sweep"),
        tag("style", Markup(_STYLE)),
    )
    shown = tag(
        "body",
        tag("h1", first),
        tag("table", tag("thead", tag("tr", [tag("th", name) for name in header])), tag("tbody", body)),
        tag("footer", f"open-nki {version()}; times are predictions but for native, which is this machine"),
    )
    return f"<!doctype html>\n{tag('html', head, shown, lang='en')}\n"
