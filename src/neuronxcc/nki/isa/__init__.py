"""``neuronxcc.nki.isa``: the instructions of NKI Beta 1."""

from __future__ import annotations

from typing import Any

from nki.beta1.isa import NAMES

globals().update(NAMES)

__all__ = sorted(NAMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    raise AttributeError(f"neuronxcc.nki.isa has no {name!r}")
