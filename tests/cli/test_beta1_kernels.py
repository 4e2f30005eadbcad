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


GONE = """
import numpy as np
import nki
import nki.language as nl
from nki.language import par_dim, mgrid, arange as numbers
from nki.isa import no_such_instruction

@nki.jit
def blocks(a):
    t = nl.ndarray((4, par_dim(128), 16), a.dtype, buffer=nl.sbuf)
    return t

@nki.jit
def programs(a):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a) * 2.0)
    return out

if __name__ == "__main__":
    x = np.ones((128, 16), np.float32)
    programs[4](x)
    programs[16, 8](x)
"""


def test_a_file_that_imports_names_that_are_gone_is_checked_for_all_else(tmp_path: Path, nki: Any) -> None:
    path = tmp_path / "gone.py"
    path.write_text(GONE, encoding="utf-8")
    run = nki("check", str(path))
    assert run.code == 1
    for text in (
        "`nki.language` no longer has `par_dim`, which is of NKI Beta 1",
        "`nki.language` no longer has `mgrid`, which is of NKI Beta 1",
        "fix: index with slices",
        "`nki.language` no longer has `arange`, which is of NKI Beta 1",
        "cannot import name 'no_such_instruction' from 'nki.isa'",
        "write `t = [nl.ndarray((128, 16), a.dtype, buffer=nl.sbuf) for _ in range(4)]`",
        "launch grid 4: a kernel on trn3 runs on at most 2 cores; in NKI Beta 1 it was a grid of programs",
        "loop over the programs inside the kernel, `for i0 in range(4):`, in place of nl.program_id",
        "launch grid (16, 8): a grid is one number of cores",
        "write `nl.store(out, nl.multiply(nl.load(a), 2.0))`",
    ):
        assert text in run.out, run.out
    assert "programs: nothing in the file shows" not in run.out and "not compiled: programs" not in run.out


def test_names_that_are_gone_stay_gone(tmp_path: Path, nki: Any) -> None:
    path = tmp_path / "gone.py"
    path.write_text(GONE, encoding="utf-8")
    nki("check", str(path))
    import nki.language as language

    assert not hasattr(language, "mgrid") and not hasattr(language, "arange")
