"""The machine as the vendor's packages tell of it, for a machine without a Neuron device."""

from __future__ import annotations

from nki import target as targets
from nki.compilation import launch_grid
from nki.harness.targets import resolve_target


def get_platform_target() -> str:
    """The target's name (trn1, trn2, trn3): the one that ``NEURON_PLATFORM_TARGET_OVERRIDE`` names, else trn3."""
    return resolve_target()


def get_logical_neuron_cores() -> int:
    """The number of cores of a launch: ``NEURON_LOGICAL_NC_CONFIG``, else 1, as for launches without brackets.

    Raises :class:`GridError` for another number than 1 and 2.
    """
    return (*launch_grid.of_launch("", (), targets.default()), 1)[0]
