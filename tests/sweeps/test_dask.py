"""A Dask cluster of two processes, which have nothing of the user's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sweeps import kernels
from tests.sweeps.test_sweep import SPACE, Here, facts, sweep

distributed = pytest.importorskip("distributed")
ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "sweep.md").read_text(encoding="utf-8")


def test_a_cluster_of_two_finds_the_same():
    local = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with local as cluster, distributed.Client(cluster) as client:
        found = sweep(kernels.scaled, SPACE, reference="reference", executor=client.get_executor())
        workers = client.run(os.getpid)
    assert len(set(workers.values())) == 2
    assert facts(found) == facts(sweep(kernels.scaled, SPACE, reference="reference", executor=Here()))


def test_the_command_of_the_page_runs(tmp_path):
    """``docs/sweep.md`` shows one command that starts a cluster of two workers and sweeps on it."""
    [command] = re.findall(r"^\$ (nki sweep .* --dask 2.*)$", PAGE, re.MULTILINE)
    words = [sys.executable, "-m", *command.split(), "--out", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = re.search(rf"^\$ {re.escape(command)}\n(.*)$", PAGE, re.MULTILINE)
    assert shown is not None and done.stdout.splitlines()[0] == shown[1]
