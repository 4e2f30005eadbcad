"""What tests of compiled kernels share: a cache of their own on disk, and how often kernels were compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nki.compilation import pipeline


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache that only this test uses."""
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPEN_NKI_CACHE_DISABLE", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each run of a kernel's Python."""
    made: list[str] = []
    specialised = pipeline._specialised  # pyright: ignore[reportPrivateUsage]

    def counted(fn: Any, *rest: Any) -> Any:
        made.append(fn.__name__)
        return specialised(fn, *rest)

    monkeypatch.setattr(pipeline, "_specialised", counted)
    return made
