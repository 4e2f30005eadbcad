"""The journal of a run: a file with one line of JSON for each finished test, which a power cut leaves readable.

A line is on the disk before the next test begins. A torn last line, of a cut in the middle of a write, is ignored, and
the next line begins on a line of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]
"""The result of one test. ``id``, ``platform``, ``library`` and ``ours`` (the commits) name it."""


def append(path: Path, record: Record) -> None:
    """Write ``record`` behind the others; it is on the disk when this returns."""
    line = json.dumps(record, default=str).encode() + b"\n"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line
        os.write(file, line)
        os.fsync(file)
    finally:
        os.close(file)


def records(path: Path) -> Iterator[Record]:
    """All whole lines of the journal at ``path``, the oldest first; none if there is no such file."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


def finished(path: Path, library: str, ours: str | None) -> dict[tuple[str, str], Record]:
    """By platform and id, the last record of each test of these commits; of all our commits with ``ours`` None."""
    return {
        (record["platform"], record["id"]): record
        for record in records(path)
        if record.get("library") == library and (ours is None or record.get("ours") == ours)
    }
