"""Steps backwards are refused, and the statements in the error do what the view would have done."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki.base.errors import NkiError
from tests.support.both_executors import both
from tests.support.written_module import written

HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n\n\n"
BACKWARDS = """
@nki.jit
def kernel(a):
    t = nl.load(a)
    view = {view}
    out = nl.ndarray(view.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, view)
    return out
"""
FIXED = """
@nki.jit
def kernel(a):
    t = nl.load(a)
    index = nl.ndarray({shape}, dtype=nl.uint32, buffer=nl.sbuf)
    dst = nl.ndarray({shape}, dtype=a.dtype, buffer=nl.sbuf)
    {statements}
    out = nl.ndarray(dst.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, dst)
    return out
"""
ROWS = """
@nki.jit
def kernel(a):
    index = nl.ndarray({shape}, dtype=nl.uint32, buffer=nl.sbuf)
    {statement}
    dst = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst, {view})
    out = nl.ndarray(dst.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, dst)
    return out
"""
A = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
COLUMNS: dict[str, tuple[str, np.ndarray[Any, Any]]] = {
    "all": ("t[:, ::-1]", A[:, ::-1]),
    "some": ("t[:, 60:2:-3]", A[:, 60:2:-3]),
    "pattern": ("t.ap([[64, 32], [-2, 8]], offset=20)", A[:, 20:4:-2]),
    "blocks": (
        "t.ap([[64, 32], [-8, 8], [1, 8]], offset=56)",
        A.reshape(32, 8, 8)[:, ::-1].reshape(32, 64),
    ),
}


def loaded(folder: Path, text: str) -> Any:
    return written(HEAD + text, folder / f"kernel_{len(list(folder.iterdir()))}.py").kernel


def fix_of(kernel: Callable[..., Any]) -> tuple[str, list[str]]:
    with pytest.raises(NkiError) as caught:
        kernel(A)
    return caught.value.fix, re.findall(r"`([^`]*)`", caught.value.fix)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", target)
    view, wanted = COLUMNS[name]
    fix, code = fix_of(loaded(tmp_path, BACKWARDS.format(view=view)))
    shape = re.findall(r"\(\d+, \d+\)", fix)[0]
    fixed = loaded(tmp_path, FIXED.format(shape=shape, statements="\n    ".join(code[1:])))
    np.testing.assert_array_equal(both(fixed, A), wanted)


@pytest.mark.parametrize("view", ["a[::-1]", "a.ap([[-64, 32], [1, 64]], offset=31 * 64)"])
def test_rows(view: str, tmp_path: Path) -> None:
    fix, code = fix_of(loaded(tmp_path, BACKWARDS.format(view=view)))
    shape = re.findall(r"\(\d+, \d+\)", fix)[0]
    fixed = loaded(tmp_path, ROWS.format(shape=shape, statement=code[1], view=code[2]))
    np.testing.assert_array_equal(both(fixed, A), A[::-1])


@pytest.mark.parametrize("view", ["a[:, ::-1]", "a.ap([[64, 32], [-1, 64]], offset=63)"])
def test_a_tensor_in_hbm_is_loaded_first(view: str, tmp_path: Path) -> None:
    fix, code = fix_of(loaded(tmp_path, BACKWARDS.format(view=view)))
    assert "load it" in fix
    assert code == [
        "tile",
        "index",
        "nisa.iota(index, pattern=[[-1, 64]], offset=63)",
        "nisa.nc_n_gather(dst, tile, index)",
    ]
