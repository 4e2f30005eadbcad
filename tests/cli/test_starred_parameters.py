"""Kernels that take ``*args`` and ``**kwargs`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import SHAPE

KERNELS = """\
import nki
import nki.language as nl


@nki.jit
def add_all(*tensors):
    out = nl.ndarray(tensors[0].shape, tensors[0].dtype, buffer=nl.shared_hbm)
    total = nl.load(tensors[0])
    for tensor in tensors[1:]:
        total = nl.add(total, nl.load(tensor))
    nl.store(out, total)
    return out


@nki.jit
def scaled(x, **options):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), options["scale"]))
    return out
"""

pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")


@pytest.fixture
def starred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "starred.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    return "starred.py"


def test_a_check_assumes_nothing_of_args(starred, nki):
    ran = nki("check", starred)
    assert ran.code == 0, ran.out
    assert "starred.py:6): nothing in the file shows the shape of *tensors" in ran.out
    assert "\n  nki check starred.py:add_all --arg 128x512:float32\n" in ran.out


def test_a_check_takes_args_in_order(starred, nki):
    ran = nki("check", f"{starred}:add_all", "--arg", SHAPE, "--arg", SHAPE)
    assert ran.code == 0 and "1 kernel (1 compiled)" in ran.out


def test_a_run_takes_any_number_of_args(starred, nki):
    ran = nki("run", f"{starred}:add_all", "--arg", SHAPE, "--arg", SHAPE, "--arg", SHAPE)
    assert ran.code == 0 and "tensors_2" in ran.out


def test_a_run_takes_kwargs_by_name(starred, nki):
    ran = nki("run", f"{starred}:scaled", "--arg", SHAPE, "--arg", "scale=2.0")
    assert ran.code == 0 and "scaled on" in ran.out
