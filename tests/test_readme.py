"""The program in the README runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_first_kernel(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(programs) == 1
    file = tmp_path / "first.py"  # a kernel needs a source file
    file.write_text(programs[0], encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "error", str(file)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr
    label, _, deviation = run.stdout.strip().rpartition(": ")
    assert label == "largest deviation from NumPy"
    # Values reach 5; the sum of 512 squares, rsqrt and two products cost a few units in the last place of float32.
    assert 0 <= float(deviation) < 5e-6
