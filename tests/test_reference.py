"""The reference pages in the repository are those that the declarations give."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES: dict[str, str] = runpy.run_path(str(ROOT / "tools" / "reference.py"))["pages"]()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run `make docs`"
