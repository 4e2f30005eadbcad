"""The program of docs/profiling.md runs as it stands there, and its tables name what exists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from nki.harness.benchmark import Benchmark
from nki.profiling.parquet import TABLES

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "profiling.md").read_text(encoding="utf-8")


PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def ran(program: str, folder: Path) -> str:
    """The output of a program in ``folder``."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    run = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_program(tmp_path):
    printed = ran(PROGRAMS[0], tmp_path)
    assert printed.startswith("rms_normalise on trn2: ") and "speedup" in printed
    assert (tmp_path / "rms_normalise.pftrace").stat().st_size > 1000


def test_the_program_about_a_measurement(tmp_path):
    (_, program) = PROGRAMS
    captures = tmp_path / "examples" / "captures"
    shutil.copytree(ROOT / "examples" / "captures", captures)
    assert ran(program, tmp_path).startswith("dma_trigger_ns 59")
    assert json.loads((tmp_path / "facts.json").read_text())["kernel"] == "rms_normalise"


def test_names(product):
    section = PAGE.partition("## From Python")[2].partition("## Measured")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    assert len(names) > 20
    assert names <= set(dir(product))
    assert {"percentile", "predicted_seconds"} <= set(dir(Benchmark))
    tables = PAGE.partition("**Parquet**")[2].partition("- `bir")[0]
    assert set(TABLES) <= set(re.findall(r"\w+", tables))
