"""Captured profiles: the Parquet tables of Neuron Explorer, or a ``summary-json``, and what this model writes so.

Names and units: Neuron documentation, Profile Parquet Schema Reference (schema 7.4.0, in ns) and the fields of
``summary-json`` (in seconds). A table may be split across numbered files. The tables ``Instruction`` and
``DmaPacketAggregated`` have what is compared, ``Metadata`` and ``Summary`` say what was captured.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, cast

import numpy as np

from nki.base.profile_errors import CaptureError
from nki.profiling.against.observation import (
    WHOLE,
    Events,
    Instructions,
    Transfers,
    short_place,
    transfer_key,
)
from nki.profiling.engine_rows import TITLES
from nki.profiling.events import Column
from nki.profiling.packages import needed
from nki.profiling.summary import ENGINES, SOURCE

INSTRUCTIONS: Final = "Instruction"
TRANSFERS: Final = "DmaPacketAggregated"
_ABOUT: Final = ("Metadata", "Summary")
_PLACES: Final = ("bir_debug_info_source_location", "nki_source_location")
_LONGEST: Final = 60.0
"""Seconds: no kernel is captured for longer, so that a greater time has another unit."""
TIMES: Final = (
    *WHOLE,
    *(f"{engine}_engine_{kind}_time" for engine in ENGINES for kind in ("active", "instruction")),
    "dma_active_time",
    "dma_transfer_time",
    *(f"{kind}_dma_active_time" for kind in ("static", "software_dynamic", "hardware_dynamic")),
)
"""The fields of a summary that are compared; seconds."""


@dataclass(frozen=True)
class Capture:
    """A profile that was captured: its ``file`` and ``form``, the ``kernel`` and ``target`` if it names them (else
    empty), the ``date``, and what it shows. ``modelled``: this model has written it.
    """

    file: Path
    form: Literal["parquet", "summary"]
    kernel: str
    target: str
    date: str
    modelled: bool
    clocks: Mapping[str, float]
    """GHz of engines, by the names of facts."""
    events: Events


def read(file: str | Path) -> Capture:
    """The capture in a folder of Parquet tables, in one of its files, or in a ``summary-json``.

    Raises :class:`CaptureError` for one that cannot be read, a column that is missing or has another unit; and
    :class:`MissingPackageError` for Parquet without ``pyarrow``.
    """
    path = Path(file)
    if not path.exists():
        raise CaptureError(
            f"{path}: there is no such file or folder", fix="name a folder of Parquet tables or a summary-json"
        )
    return _of_summary(path) if path.is_file() and path.suffix != ".parquet" else _of_tables(path)


def _of_tables(path: Path) -> Capture:
    files = _files(path)
    if INSTRUCTIONS not in files and TRANSFERS not in files:
        raise CaptureError(
            f"{path}: there is no table {INSTRUCTIONS}, only {', '.join(sorted(files)) or 'nothing'}",
            fix=f"name the folder with {INSTRUCTIONS}.parquet and {TRANSFERS}.parquet that the profiler has written",
        )
    tables = {name: _Table.of(name, files[name]) for name in (INSTRUCTIONS, TRANSFERS, *_ABOUT) if name in files}
    events = Events()
    if INSTRUCTIONS in tables:
        events.instructions = _instructions(tables[INSTRUCTIONS])
    if TRANSFERS in tables:
        events.transfers = _transfers(tables[TRANSFERS])
    about: dict[str, Any] = {}
    for name in reversed(_ABOUT):
        if name in tables:
            about |= tables[name].first()
    total: Any = about.get("total_time")
    if _is_number(total):
        events.fields = {"total_time": _seconds(path, "total_time", total) * 1e9}
    return _capture(path, "parquet", about, events)


def _files(path: Path) -> dict[str, list[Path]]:
    """The files of each table."""
    files: dict[str, list[Path]] = {}
    for each in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        name, _, number = each.stem.rpartition("_")
        files.setdefault(name if number.isdecimal() else each.stem, []).append(each)
    if not path.is_dir() and INSTRUCTIONS not in files and TRANSFERS not in files:
        # One file alone may have any name.
        names = _Table.of(path.stem, [path]).columns
        files = {INSTRUCTIONS if "opcode" in names else TRANSFERS if "transfer_bytes" in names else path.stem: [path]}
    return files


def _capture(path: Path, form: Literal["parquet", "summary"], about: Mapping[str, Any], events: Events) -> Capture:
    first = str(about.get("first_ts", ""))
    date = first[:10] if first[:4].isdecimal() and first[4:5] == "-" and not first.startswith("1970") else ""
    return Capture(
        path,
        form,
        str(about.get("kernel") or ""),
        str(about.get("target") or about.get("instance_type") or "").partition(".")[0],
        date or datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat(),
        about.get("source") == SOURCE,
        {
            f"{engine}_clock_ghz": float(about[f"{engine}_engine_clock_freq"])
            for engine in ENGINES
            if _is_number(about.get(f"{engine}_engine_clock_freq"))
        },
        events,
    )


@dataclass
class _Table:
    """A table as arrays by column, with the file that errors name."""

    file: Path
    name: str
    columns: dict[str, Any]

    @classmethod
    def of(cls, name: str, files: Sequence[Path]) -> _Table:
        pyarrow = needed("pyarrow", "pyarrow", "--against")
        parquet = needed("pyarrow.parquet", "pyarrow", "--against")
        try:
            table = pyarrow.concat_tables([parquet.read_table(file) for file in files], promote_options="permissive")
        except (OSError, pyarrow.ArrowException) as error:
            text = str(error).partition("\n")[0]
            raise CaptureError(f"{files[0]}: {text}", fix="name a Parquet file that the profiler has written") from None
        return cls(files[0], name, {column: table[column] for column in table.column_names})

    def first(self) -> dict[str, Any]:
        """The first row."""
        return {name: column[0].as_py() for name, column in self.columns.items() if len(column)}

    def texts(self, name: str, needed: bool = True) -> list[str]:
        """A column of texts; of several, the first one."""
        values: list[Any] = self._column(name, "texts").to_pylist() if needed or name in self.columns else []
        first: list[Any] = [next(iter(cast("list[Any]", v)), "") if isinstance(v, list) else v for v in values]
        return [value if isinstance(value, str) else "" for value in first]

    def numbers(self, name: str, default: float | None = None) -> Column:
        """A column of numbers, NaN where there is none; ``default`` if there is no such column."""
        if name not in self.columns and default is not None:
            return np.full(self.size, default, np.float64)
        values = self._column(name, "numbers").to_pylist()
        try:
            return np.array([np.nan if value is None else float(value) for value in values], np.float64)
        except (TypeError, ValueError):
            kind = self.columns[name].type
            raise CaptureError(
                f"{self.file}: column {name} has values of type {kind}, where numbers are expected",
                fix=f"write the table {self.name} as the profiler does",
            ) from None

    def times(self) -> tuple[Column, Column]:
        """Begins and ends; ns."""
        start, end = self.numbers("start_ts"), self.numbers("end_ts")
        if not len(start):
            raise CaptureError(f"{self.file}: the table {self.name} is empty", fix="capture the kernel anew")
        lengths = end - start
        stated = self.numbers("duration_ns") if "duration_ns" in self.columns else lengths
        if not np.isfinite(lengths).all() or (lengths < 0).any():
            raise CaptureError(
                f"{self.file}: in column end_ts, row {int(np.argmin(np.nan_to_num(lengths, nan=-np.inf)))} ends before "
                "it begins, or has no time",
                fix="capture the kernel anew",
            )
        wrong = np.abs(stated - lengths) > 2.0 + 0.01 * np.abs(lengths)
        if wrong.mean() > 0.01:
            row = int(np.argmax(wrong))
            raise CaptureError(
                f"{self.file}: column duration_ns says {stated[row]:g} in row {row}, and end_ts less start_ts is "
                f"{lengths[row]:g}; all three are expected in ns",
                fix="write all times in ns",
            )
        return start, end

    @property
    def size(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    def _column(self, name: str, kind: str) -> Any:
        if name not in self.columns:
            raise CaptureError(
                f"{self.file}: column {name} is missing; the table {self.name} is expected to have it, with {kind}",
                fix=f"pass the table as the profiler writes it; this one has {', '.join(sorted(self.columns)[:12])}",
            )
        return self.columns[name]


def _instructions(table: _Table) -> Instructions:
    start, end = table.times()
    engines = [_engine(name, table) for name in table.texts("engine")]
    opcodes = table.texts("opcode")
    located = next((name for name in _PLACES if any(table.texts(name, needed=False))), "")
    places = [short_place(place) for place in table.texts(located)] if located else [""] * table.size
    keys, group = _grouped(list(zip(engines, opcodes, places, strict=True)))
    return Instructions(keys, group, table.numbers("pcore_idx", 0.0), start, end, table.numbers("executions", 1.0))


def _engine(name: str, table: _Table) -> str:
    title = TITLES.get(name.lower())
    if title is None:
        raise CaptureError(
            f"{table.file}: column engine names {name!r}; one of {', '.join(TITLES)} is expected",
            fix="pass a capture of one NeuronCore as the profiler writes it",
        )
    return title


def _transfers(table: _Table) -> Transfers:
    start, end = table.times()
    sizes = table.numbers("transfer_bytes").astype(np.int64).tolist()
    kinds = table.texts("queue_type", needed=False) or ["unknown"] * table.size
    ends = zip(kinds, table.texts("source"), table.texts("dest"), sizes, strict=True)
    keys, group = _grouped([("DMA", *transfer_key(*each)) for each in ends])
    trigger, completion = (table.numbers(name, np.nan) for name in ("trigger", "completion"))
    # In captures of devices the column is the end of the trigger.
    completion = np.where(completion >= end, completion, np.nan)
    return Transfers(keys, group, start, end, table.numbers("executions", 1.0), trigger, completion)


def _grouped(rows: list[tuple[str, str, str]]) -> tuple[list[tuple[str, str, str]], Column]:
    number = {key: place for place, key in enumerate(dict.fromkeys(rows))}
    return list(number), np.array([number[key] for key in rows], np.int64)


def _of_summary(path: Path) -> Capture:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise CaptureError(
            f"{path}: this is no JSON: {problem}", fix="name a summary-json, or a folder of Parquet tables"
        ) from None
    sessions = _sessions(document)
    if len(sessions) != 1:
        raise CaptureError(
            f"{path}: there are {len(sessions)} summaries with a field total_time, where one is expected",
            fix="keep the one of the kernel, as neuron-profile view --output-format summary-json writes it",
        )
    summary = sessions[0]
    known = [name for name in TIMES if _is_number(summary.get(name))]
    engines = [name for name in known if name.endswith("_engine_active_time")]
    for name, there in (("total_time", "total_time" in known), ("tensor_engine_active_time", bool(engines))):
        if not there:
            raise CaptureError(
                f"{path}: field {name} is missing, or no number; seconds are expected",
                fix="pass the summary with all of its fields",
            )
    fields = {name: _seconds(path, name, summary[name]) * 1e9 for name in known}
    return _capture(path, "summary", summary, Events(fields=fields))


def _sessions(document: Any) -> list[dict[str, Any]]:
    """The summaries in a document, which is one, or has some by name."""
    if not isinstance(document, dict):
        return []
    summary = cast("dict[str, Any]", document)
    if "total_time" in summary:
        return [summary]
    sessions = [cast("dict[str, Any]", each) for each in summary.values() if isinstance(each, dict)]
    return [each for each in sessions if "total_time" in each]


def _seconds(path: Path, name: str, value: Any) -> float:
    if not 0.0 <= float(value) <= _LONGEST:
        raise CaptureError(
            f"{path}: field {name} is {value:g}; seconds are expected, {_LONGEST:g} at most",
            fix="write all times in seconds, as the profiler does",
        )
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
