"""How long instructions take, and who says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """How long one instruction occupies its engine: cycles of that engine, and where the number comes from."""

    cycles: float
    kind: str  # "docs", "measured" or "guess"
    source: str
