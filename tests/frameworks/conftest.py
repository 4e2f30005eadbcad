"""What the tests of the bridges share: a cache folder of their own, and launches that are recorded or fail."""

from __future__ import annotations

import pytest

from nki.compilation.executable import Executable


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPEN_NKI_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def launches(monkeypatch):
    """The addresses that each launch of a kernel got, oldest first."""
    recorded = []
    launch = Executable.launch

    def record(self, pointers, floats=(), from_torch=False):
        recorded.append(tuple(pointers))
        launch(self, pointers, floats, from_torch)

    monkeypatch.setattr(Executable, "launch", record)
    return recorded


@pytest.fixture
def broken_launch(monkeypatch):
    """Every launch fails."""

    def fail(self, pointers, floats=(), from_torch=False):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(Executable, "launch", fail)
