"""A copy of the source with changes, and Python on it: tests that add a made-up part and show what follows from it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copied_source(
    folder: Path, *, added: Mapping[str, str] | None = None, changed: Mapping[str, Mapping[str, str]] | None = None
) -> Path:
    """``folder`` with a copy of ``src``: ``added`` to the ends of files of ``nki``, which may be new ones, and
    ``changed`` in others, where each text occurs once.
    """
    for package in ("nki", "neuronxcc"):
        shutil.copytree(ROOT / "src" / package, folder / package)
    for name, text in (added or {}).items():
        with (folder / "nki" / name).open("a", encoding="utf-8") as file:
            file.write(text)
    for name, changes in (changed or {}).items():
        file = folder / "nki" / name
        text = file.read_text(encoding="utf-8")
        for old, new in changes.items():
            assert text.count(old) == 1, f"{name} has not one {old!r}: change this test"
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
    return folder


def run(source: Path, *words: str, code: int = 0) -> str:
    """The output of Python with the arguments ``words`` on ``source``, which ends with ``code``.

    With an error it is followed by the text of the error.
    """
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + (done.stderr if code else "")


__all__ = ["ROOT", "copied_source", "run"]
