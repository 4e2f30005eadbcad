"""``nki.testing.verify`` lets no kernel pass that cheats, and says how it cheats."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from nki.testing import verify
from nki.testing.replaced import replaced
from nki.testing.verification import Verification

from . import more_cheats, more_references, references
from .cheats import CALLS, CHEATS

SIZES = {"{M}x96:float32": {"M": range(1, 300)}, "{M}x95:float32": {"M": range(1, 128)}}


@pytest.mark.parametrize("name", CHEATS)
def test_cheats_fail(name: str) -> None:
    cheat = CHEATS[name]
    reference = getattr(references, cheat.reference)
    found = verify(cheat.kernel, reference, *cheat.arguments, sizes=SIZES.get(cheat.arguments[0]), seeds=1, seed=3)
    assert not found.passed, found
    assert found.score < 0.5
    assert any(each.name.startswith(cheat.check) for each in found.failed), found
    assert not CALLS, "the kernel's Python ran in this process"
    assert np.abs(np.float32(-1)) == 1
    assert references.doubled(np.ones(1)) == 2


PART = 1 if int(os.environ.get("NKI_TEST_EXAMPLES", "50")) >= 500 else 5
"""One in so many of the others is verified; nightly tests verify all."""


@pytest.mark.parametrize("name", list(more_cheats.CASES)[::PART])
def test_more_cheats_fail(name: str) -> None:
    kernel, reference, arguments, options = more_cheats.CASES[name]
    found = verify(kernel, getattr(more_references, reference), *arguments, seeds=1, seed=5, **options)
    assert not found.passed, found
    assert found.score < 0.5


def test_there_are_20() -> None:
    assert len(CHEATS) >= 20


PATCHES = """
import sys

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

assert "{reference}" not in sys.modules
np.abs = np.absolute = lambda *a, **k: np.zeros(())
np.random.default_rng = None
if "nki.testing" in sys.modules:
    sys.modules["nki.testing"].verification.Verification.passed = True


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out
"""


def test_a_file_that_patches_the_judge_is_never_imported_here(tmp_path: Path) -> None:
    file = tmp_path / "patches.py"
    file.write_text(PATCHES.replace("{reference}", references.__name__), encoding="utf-8")
    before = np.abs
    found = verify(f"{file}:kernel", references.doubled, "64x32:float32", seeds=1, seed=1)
    assert not found.passed
    assert np.abs is before
    assert verify(f"{file}:kernel", lambda x: x, "64x32:float32", seeds=1, seed=1).passed


def test_replaced_functions_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replaced(__file__) == []
    monkeypatch.setattr(np, "exp", lambda x: x)
    monkeypatch.setattr(np, "sin", np.cos)
    monkeypatch.setattr(Verification, "passed", property(lambda _: True))
    assert set(replaced(__file__)) == {"numpy.exp", "numpy.sin", "nki.testing.verification.Verification.passed"}
