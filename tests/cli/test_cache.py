"""``nki cache``: what is kept on disk, and its removal."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from pathlib import Path

import pytest

from nki.compilation.cache import store
from tests.support.program_text import KERNEL


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def kept(name: str, digit: int, age: float) -> None:
    def code() -> None: ...

    program = dataclasses.replace(KERNEL, name=name)
    store.store(
        f"{digit}" * 64, program, code.__code__, {spec.name: spec for spec in KERNEL.signature.input_specs()}, []
    )
    path = store.folder() / f"{str(digit) * 40}.klir"
    os.utime(path, (time.time() - age,) * 2)


def test_an_empty_cache(nki, folder: Path) -> None:
    assert nki("cache").out == f"0 entries, 0.0 of 512 MiB, in {folder}\n"
    assert nki("cache", "--json").out == "[]\n"
    assert nki("cache", "--clear").out == "removed 0 files\n"
    assert not folder.exists()


def test_the_list(nki, folder: Path) -> None:
    kept("older", 1, 7300)
    kept("newer", 2, 5)
    (folder / "broken.klir").write_bytes(b"nothing")
    lines = nki("cache").out.splitlines()
    count = KERNEL.size
    assert lines[0] == f"newer(a=64x32:float32, b=64x48:float32) on trn3: {count} instructions"
    assert lines[1] == f"  {__file__}:{kept.__code__.co_firstlineno + 1}"
    assert lines[2].startswith(f"  {'2' * 40}.klir  ") and lines[2].endswith(" bytes, used just now")
    assert lines[3].startswith("older(") and lines[5].endswith("used 2 hours ago")
    assert lines[6:] == [f"2 entries, 0.0 of 512 MiB, in {folder}"]
    newer, older = json.loads(nki("cache", "--json").out)
    assert older["kernel"] == "older" and older["age"] >= 7300
    assert newer["path"] == str(folder / f"{'2' * 40}.klir") and newer["bytes"] == os.stat(newer["path"]).st_size
    assert newer["arguments"] == ["a=64x32:float32", "b=64x48:float32"] and newer["instructions"] == count


def test_removal(nki, folder: Path) -> None:
    for digit, name in enumerate(("one", "two", "two")):
        kept(name, digit, 0)
    (folder / "broken.klir").write_bytes(b"nothing")
    missing = nki("cache", "--clear", "tow")
    assert missing.code == 2 and "did you mean two?" in missing.err
    assert nki("cache", "--clear", "two").out == "removed 2 files\n"
    assert [entry["kernel"] for entry in json.loads(nki("cache", "--json").out)] == ["one"]
    assert json.loads(nki("cache", "--clear", "--json").out)["removed"] == 2
    assert list(folder.iterdir()) == []
