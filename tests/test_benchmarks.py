"""The benchmarks run: they reach into native code's tables, which nothing else checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_quick_sections_print_their_rows() -> None:
    command = [sys.executable, "-m", "benchmarks", "matmul", "primitives", "launching", "--runs", "1"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()[2:]
    assert len(rows) >= 20
    assert all(row.count("|") == 5 for row in rows)
