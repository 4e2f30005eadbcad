"""The hardware generations, as facts with sources. ``find`` takes a name, ``default`` reads the environment."""

from __future__ import annotations

import os
from typing import Final

from nki.base import knobs
from nki.base.errors import UnknownTargetError
from nki.target.fact_rows import Fact
from nki.target.model import GEN2, GEN3, GEN4, Target

__all__ = ["ENVIRONMENT", "GEN2", "GEN3", "GEN4", "GENERATIONS", "Fact", "Target", "default", "find", "is_chosen"]

GENERATIONS: Final = (GEN2, GEN3, GEN4)
ENVIRONMENT: Final = "NEURON_PLATFORM_TARGET_OVERRIDE"

_BY_NAME: Final = {alias: target for target in GENERATIONS for alias in target.aliases}


def find(name: str) -> Target:
    """The target of that name, whatever its case: trn1, trn1n, inf2, gen2; trn2, gen3; trn3, gen4.

    Raises :class:`UnknownTargetError` for any other.
    """
    return _find(name, f"target {name!r} does not exist")


def default() -> Target:
    """The target that ``NEURON_PLATFORM_TARGET_OVERRIDE`` names; trn3 when it is unset or empty.

    Read anew at each call, so that a program may change it between kernels. Raises :class:`UnknownTargetError`.
    """
    name = _chosen()
    return _find(name, f"{ENVIRONMENT}={name!r} names no target") if name else GEN4


def is_chosen() -> bool:
    """True if the environment names a target."""
    return bool(_chosen())


def _chosen() -> str:
    return os.fsdecode(knobs.target() or b"").strip()


def _find(name: str, complaint: str) -> Target:
    target = _BY_NAME.get(name.strip().lower())
    if target is None:
        names = "; ".join(", ".join(each.aliases) for each in GENERATIONS)
        raise UnknownTargetError(complaint, fix=f"use one of {names}")
    return target
