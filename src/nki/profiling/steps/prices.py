"""Prices of what a framework does between kernels."""

from __future__ import annotations

from nki.compilation.traced_step import Operation
from nki.target.model import Target


def price(operation: Operation, target: Target) -> float | None:  # noqa: ARG001
    """Seconds that ``operation`` takes on ``target``, of all cores of a step; None: it has no price.

    No operation has one yet: the vendor's compiler makes what it likes of them, and fuses most.
    """
    return None
