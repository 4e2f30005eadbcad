"""What is generated and kept in the repository is what the declarations and the golden reports give."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES: dict[str, str] = runpy.run_path(str(ROOT / "tools" / "reference.py"))["pages"]()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name: str) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run `make docs`"
