"""The commands for ranks in README's section "Beyond one machine"; tests/sweeps/test_dask.py has the third one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.fresh_process import ROOT

FILE = "examples/tensor_parallel.py"
COMMANDS = {
    f"python {FILE}": [sys.executable, FILE],
    f"torchrun --nproc-per-node 2 {FILE}": [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        FILE,
    ],
}


@pytest.mark.parametrize("written", COMMANDS)
def test_the_commands_of_the_readme(written: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"\n{written} " in readme.partition("## Beyond one machine")[2]
    # Unbuffered, as containers often run Python: a line in two writes would mix with the line of the other rank.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    command = COMMANDS[written]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    said = [line.split(":")[0] for line in sorted(run.stdout.splitlines()) if line.startswith("rank ")]
    assert said == (["rank 0 of 2", "rank 1 of 2"] if "torchrun" in written else ["rank 0 of 2"])
    assert len({line.partition("=")[2] for line in run.stdout.splitlines() if line.startswith("rank ")}) == 1
