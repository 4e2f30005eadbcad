"""Files of the cache folder: what anyone may have put there, and what an interrupted write leaves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nki.base import files, knobs


@pytest.fixture(params=["fifo", "device", "folder"])
def strange(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A thing under a file's name from which a read may never return."""
    path = tmp_path / "entry.klir"
    if request.param == "fifo":
        os.mkfifo(path)
    elif request.param == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


def test_only_regular_files_are_read_and_listed(strange: Path) -> None:
    assert files.read(strange) is None and files.contents(strange) is None
    assert not files.use(strange)
    assert files.files(".klir", strange.parent) == []
    files.trim(".klir", 0, strange.parent)
    assert os.path.lexists(strange)


def test_a_file_takes_the_place_of_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "entry.klir")
    files.write(tmp_path / "entry.klir", b"data")
    assert files.read(tmp_path / "entry.klir") == b"data"


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.write(tmp_path / "entry.klir", b"data")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variable", ["OPEN_NKI_CACHE", "XDG_CACHE_HOME"])
def test_a_tilde_is_the_home_of_the_user(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPEN_NKI_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, "~/x")
    assert knobs.cache_folder() == (tmp_path / "x" if variable == "OPEN_NKI_CACHE" else tmp_path / "x" / "open-nki")
