"""Runs of a file as a program, before and after its migration."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

PROGRAM: Final = "__main__"
"""The name of a file as a program."""
_PATIENCE: Final = 60.0
"""Seconds that the new program may take beyond ten times the old one's."""


def _is_program(source: str) -> bool:
    """True for a file with a block ``if __name__ == "__main__":``."""
    return any(
        isinstance(node, ast.If)
        and any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))
        for node in ast.parse(source).body
    )


def broken(path: Path, old: str, new: str) -> str:
    """The error in which a new program ends, if the old one does not end in one; "" otherwise."""
    started = time.monotonic()
    if not _is_program(old) or _error(path, old, None):
        return ""
    return _error(path, new, _PATIENCE + 10 * (time.monotonic() - started))


def _error(path: Path, source: str, seconds: float | None) -> str:
    """The last line of what a program says as it fails; "" if it does not."""
    with tempfile.TemporaryDirectory(prefix="nki-migrate-") as folder:
        file = Path(folder) / path.name
        file.write_text(source, encoding="utf-8")
        paths = [str(path.parent), *(os.path.abspath(entry) for entry in sys.path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", str(file)],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it still runs after {seconds:.0f} s"
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode(errors="replace").strip().split("\n")
    return next((line for line in lines if "[NKI-" in line), lines[-1]).strip() or f"exit code {done.returncode}"


__all__ = ["PROGRAM", "broken"]
