"""``nki check --run`` and ``nki run --check``: hazards from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nki.base.warning import NkiWarning
from nki.cli import run

HAZARDS = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def early(x):
    t = nl.ndarray(x.shape, dtype=x.dtype)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, t)
    nisa.dma_copy(t, x)
    return out

@nki.jit
def partly(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[0:4], x[0:4])
    return out

@nki.jit
def second(x):
    out = nl.ndarray((4, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    total = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, t, t, accumulate=False)
    if nl.program_id(0) == 1:
        nisa.nc_matmul(total, t, t, accumulate=False)
    nl.store(out, nl.copy(total))
    return out
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "hazards.py"
    path.write_text(HAZARDS)
    return str(path)


def test_check_runs_a_kernel_on_demand(nki, file: str) -> None:
    assert nki("check", file).code == 0
    ran = nki("check", "--run", f"{file}:early", "--arg", "8x4:float32", "--json")
    (found,) = json.loads(ran.out)["findings"]
    assert ran.code == 1
    assert (found["code"], found["line"], found["severity"]) == ("NKI-HZ001", 10, "error")


def test_check_reports_what_is_warned_of(nki, file: str) -> None:
    ran = nki("check", "--run", f"{file}:partly", "--arg", "8x4:float32")
    assert ran.code == 0
    assert "output 'out' (8, 4) float32 is written in part: 50.0%" in ran.out
    assert nki("check", "--run", f"{file}:partly", "--arg", "8x4:float32", "--strict").code == 1
    ran = nki("check", "--run", f"{file}:partly", "--arg", "4x4:float32")
    assert ran.out.startswith("nothing found in 1 file, 1 kernel (1 compiled), 1 function (")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--run", "{file}", "{file}"], "--run runs one kernel"),
        (["{file}", "--arg", "3"], "has 3 kernels; say which"),
        (["{file}", "--target", "trn2"], "--target, --cores and --grid are about one kernel"),
        (["--run", "{file}:none"], "has no kernel 'none'"),
    ],
)
def test_check_refuses(nki, file: str, arguments: list[str], said: str) -> None:
    ran = nki("check", *[argument.format(file=file) for argument in arguments])
    assert ran.code == 2 and said in ran.err


def test_run_checks_the_compiled_kernel(nki, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("OPEN_NKI_HAZARDS", "0")
        assert nki("run", f"{file}:early", "--arg", "8x4:float32").code == 0
    for option in ((), ("--check",)):
        ran = nki("run", *option, f"{file}:early", "--arg", "8x4:float32")
        assert ran.code == 1
        assert "dma_copy: src 't' (8, 4) float32 in sbuf, made in line 8, is read where nothing was written" in ran.err
    ran = nki("run", "--check", f"{file}:partly", "--arg", "4x4:float32")
    assert ran.code == 0 and "checked: no hazards, and the reference executor gives the same bits\n" in ran.out


def test_run_counts_what_it_warns_of(nki, file: str) -> None:
    with pytest.warns(NkiWarning, match="is written in part"):
        ran = nki("run", "--check", f"{file}:partly", "--arg", "8x4:float32")
    assert ran.code == 0 and "checked: 1 warning, and the reference executor gives the same bits\n" in ran.out


def test_warnings_of_the_second_core_are_found(nki, file: str) -> None:
    ran = nki("check", "--run", f"{file}:second", "--arg", "8x4:float32", "--cores", "2", "--target", "trn2", "--json")
    (found,) = json.loads(ran.out)["findings"]
    assert (found["severity"], found["line"]) == ("warning", 27) and "nothing has read" in found["message"]


def test_run_compares_the_bits(nki, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run.simulated_run, "run", lambda program, arrays: [np.zeros((4, 4), np.float32)])
    with pytest.raises(RuntimeError, match="differ in 'out'"):
        nki("run", "--check", f"{file}:partly", "--arg", "4x4:float32")
