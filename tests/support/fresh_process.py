"""A program in a process of its own, which has imported nothing yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def finished(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The Python of ``program``, run in the folder of the project; it must end without an error."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return done
