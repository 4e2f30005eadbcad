from __future__ import annotations

import importlib.util
import sys

import pytest

if importlib.util.find_spec("nki.jit") is None:
    from . import fake_jit

    sys.modules["nki.jit"] = fake_jit


@pytest.fixture
def launches(monkeypatch):
    """The addresses that each launch of a kernel got, oldest first."""
    from nki.jit import Executable

    recorded = []
    launch = Executable.launch

    def record(self, pointers):
        recorded.append(tuple(pointers))
        launch(self, pointers)

    monkeypatch.setattr(Executable, "launch", record)
    return recorded


@pytest.fixture
def broken_launch(monkeypatch):
    """Every launch fails."""
    from nki.jit import Executable

    def fail(self, pointers):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(Executable, "launch", fail)
