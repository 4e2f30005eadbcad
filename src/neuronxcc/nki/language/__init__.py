"""``neuronxcc.nki.language``: the language of NKI Beta 1."""

from __future__ import annotations

from typing import Any

from nki.beta1.numpy_functions import NAMES

globals().update(NAMES)

__all__ = sorted(NAMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"neuronxcc.nki.language has no {name!r}")
