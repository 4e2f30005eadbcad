"""The kernels of docs/migration-0.7.md: each runs under its own release, and both forms give the same result."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from tests.support.written_module import written

PAGE = (Path(__file__).parents[2] / "docs" / "migration-0.7.md").read_text(encoding="utf-8")
SECTIONS = re.findall(
    r"## (.*)\n\n(?:.*\n)+?\n```python\n# 0\.6\n((?:.*\n)*?)```\n\n```python\n# 0\.7\n((?:.*\n)*?)```", PAGE
)
HEAD = "import nki.isa as nisa\nimport nki.language as nl\n\n"
X = np.arange(200 * 8, dtype=np.float32).reshape(200, 8)
ONE = np.array([[1]], np.int32)


def load(text: str, folder: Path) -> Any:
    return nki.jit(written(HEAD + text, folder / "kernels.py").kernel)


def result(text: str, release: str, folder: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> Any:
    folder.mkdir()
    monkeypatch.setenv("NKI_VERSION", release)
    x = X if "128" in text else X[:4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nki.NkiDeprecationWarning)
        return run(load(text, folder))(x, ONE)


def test_there_are_pairs() -> None:
    assert len(SECTIONS) == PAGE.count("# 0.6\n") == PAGE.count("# 0.7\n") == 4


@pytest.mark.parametrize("run", [lambda kernel: kernel, nki.simulate], ids=["native", "simulate"])
@pytest.mark.parametrize(("older", "newer"), [s[1:] for s in SECTIONS], ids=[s[0] for s in SECTIONS])
def test_both_forms_agree(older: str, newer: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = result(older, "0.6", tmp_path / "older", monkeypatch, run)
    after = result(newer, "0.7", tmp_path / "newer", monkeypatch, run)
    x = X if "128" in older else X[:4] + 1
    np.testing.assert_array_equal(before, x)
    np.testing.assert_array_equal(after, x)


@pytest.mark.parametrize("older", [s[1] for s in SECTIONS[:2]], ids=[s[0] for s in SECTIONS[:2]])
def test_the_older_loops_are_refused(older: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(nki.NkiError):
        result(older, "0.7", tmp_path / "older", monkeypatch, lambda kernel: kernel)
