"""Every report has the version: a mistake's report in its text, a bug's traceback in a note."""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.language as nl
from nki.base.errors import ShapeError
from nki.base.version import version
from nki.compilation import pipeline
from nki.compilation.launch_errors import BugReports
from nki.passes.verify import Verify

NOTE = f"(open-nki {version()})"


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


@pytest.mark.parametrize("kind", [StopIteration, KeyError, AssertionError, RecursionError])
@pytest.mark.parametrize(
    "way", [copied, nki.simulate(copied), copied.compile, nki.profile(copied, target="trn2")], ids=range(4)
)
def test_a_bug_of_the_compiler_has_the_version(way, kind, monkeypatch):
    def broken(*_: object) -> None:
        raise kind

    monkeypatch.setattr(Verify, "check", broken)
    with pytest.raises(kind) as raised:
        way(np.zeros((128, 17), np.float32))
    assert raised.value.__notes__ == [NOTE]


def test_a_mistake_has_it_in_its_text_alone():
    with pytest.raises(ShapeError) as raised, BugReports():
        raise ShapeError("too long")
    assert NOTE in str(raised.value) and not hasattr(raised.value, "__notes__")
    with pytest.raises(KeyboardInterrupt) as stopped, BugReports():
        raise KeyboardInterrupt
    assert not hasattr(stopped.value, "__notes__")
    assert pipeline.STAGES[0].name == "verify"
