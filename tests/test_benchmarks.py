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


def test_what_threads_gain_in_turns_is_that_of_runs_at_one_clock() -> None:
    """A clock that is a tenth higher in one round changes the shortest times, and not the gain in turns."""
    code = """
from benchmarks import clock, kernels_whole as k
rounds = [{1: k._Times(t, t, t, 1.0), 2: k._Times(u, t, t, 1.0)} for t, u in ((20.0, 11.1), (18.0, 10.0), (20.0, 10.0))]
print(f"{k._gain(rounds, 2):.2f}", 1e8 < clock.speed() < 1e11)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["1.80", "True"], done.stderr
