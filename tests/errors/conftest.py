"""Where the programs with mistakes are written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "kernel.py"
    sys.modules.pop("kernel_with_a_mistake", None)
