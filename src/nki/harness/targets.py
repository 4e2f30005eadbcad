"""Targets by name, as the vendor's compiler settles them."""

from __future__ import annotations

from nki import target as targets


def resolve_target(target: str | None = None) -> str:
    """The name of ``target`` (trn1, trn2, trn3), by default of the one that the environment names; trn3 without one.

    Raises :class:`UnknownTargetError`.
    """
    return (targets.default() if target is None else targets.find(target)).name


def target_to_nc_version(target: str) -> int:
    """The generation of the NeuronCore of ``target``: 2 for trn1, 3 for trn2, 4 for trn3."""
    return targets.find(target).generation
