"""Errors of launches and of their options."""

from __future__ import annotations

from nki.base.errors import NkiError


class DegreeError(NkiError):
    """Brackets of a launch and ``NEURON_LOGICAL_NC_CONFIG`` name different numbers of cores."""

    code = "NKI-KN020"


class NestedConfigError(NkiError):
    """A kernel that another one calls has a ``compile_config`` of its own, and it is not that of the caller."""

    code = "NKI-KN021"
