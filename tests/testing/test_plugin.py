"""The pytest plugin: fixture, options, JSON, also over several processes; it costs nothing where it is not used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TESTS = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


def test_right(verify):
    assert verify(copied, lambda x: x, "8x8:float32", seed=3).score == 1


def test_wrong(verify):
    verify(copied, lambda x: 2 * x, "8x8:float32", seed=3)
"""
UNUSED = """
import sys


def test_nothing():
    assert "nki_pytest" in sys.modules
    assert not [name for name in sys.modules if name == "nki" or name.startswith("nki.")]
"""


def run(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(text, encoding="utf-8")
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "nki_pytest", *options],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip


def check(folder: Path, *options: str) -> None:
    found = run(folder, TESTS, "--nki-verify-json", "found.json", "--nki-seeds", "1", *options)
    assert "1 failed, 1 passed" in found.stdout, found.stdout + found.stderr
    assert "NKI-VF001" in found.stdout
    document = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    scores = {each["test"].rpartition("::")[2]: each["score"] for each in document["verifications"]}
    assert scores == {"test_right": 1.0, "test_wrong": 0.0}


def test_fixture_and_json(tmp_path: Path) -> None:
    check(tmp_path)


def test_several_processes(tmp_path: Path) -> None:
    check(tmp_path, "-n", "2")


def test_nothing_is_imported_before_the_fixture_is_used(tmp_path: Path) -> None:
    found = run(tmp_path, UNUSED)
    assert "1 passed" in found.stdout, found.stdout + found.stderr
    assert [each.name for each in tmp_path.glob("*.json")] == []


def test_the_package_declares_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"nki_pytest": "nki_pytest"}
    assert "src/nki_pytest" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
