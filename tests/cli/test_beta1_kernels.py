"""Commands on kernels of Beta 1: launch grids, and functions without decorator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

KERNELS = """
from neuronxcc import nki
import neuronxcc.nki.language as nl

@nki.jit
def blocks(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows = nl.program_id(0) * 64 + nl.arange(64)[:, None]
    columns = nl.program_id(1) * 32 + nl.arange(32)[None, :]
    nl.store(out[rows, columns], nl.load(a[rows, columns]) * 2.0)
    return out

def plain(a, out):
    nl.store(out, nl.exp(nl.load(a)))
"""
BLOCKS = ("--arg", "128x96:float32:ones", "--grid", "2x3")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "beta1_kernels.py"
    path.write_text(KERNELS, encoding="utf-8")
    return path


def test_a_grid_of_programs(file: Path, nki: Any) -> None:
    run = nki("run", f"{file}:blocks", *BLOCKS, "--json")
    assert json.loads(run.out)["outputs"][0]["sum"] == 2 * 128 * 96
    profile = nki("profile", f"{file}:blocks", *BLOCKS, "--target", "trn1", "--json")
    assert profile.code == 0
    (session,) = json.loads(profile.out).values()
    assert session["hbm_read_bytes"] == 128 * 96 * 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--grid", "2y"), "'2y' is no grid such as 2x4"),
        (("--grid", "-2"), "no positive number"),
        (("--grid", "2", "--cores", "2"), "not allowed with argument"),
    ],
)
def test_grids_that_are_none(file: Path, nki: Any, arguments: tuple[str, ...], says: str) -> None:
    run = nki("run", f"{file}:blocks", "--arg", "128x96:float32:ones", *arguments)
    assert run.code != 0 and says in run.out + run.err


def test_another_kernel_has_no_grid(tmp_path: Path, nki: Any) -> None:
    path = tmp_path / "present.py"
    path.write_text("import nki\n\n@nki.jit\ndef same(a):\n    return a\n", encoding="utf-8")
    run = nki("run", str(path), "--arg", "8x8:float32", "--grid", "2")
    assert run.code != 0 and "same is no kernel of Beta 1" in run.err


def test_a_function_without_decorator(file: Path, nki: Any) -> None:
    tile = ("--arg", "8x8:float32:zeros")
    profile = nki("profile", f"{file}:plain", *tile, *tile, "--json")
    assert profile.code == 0
    (session,) = json.loads(profile.out).values()
    assert session["hbm_write_bytes"] == 8 * 8 * 4
