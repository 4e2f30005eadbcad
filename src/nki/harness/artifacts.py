"""Files that harnesses ask for: an artifact of Open NKI stands where they expect a NEFF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nki.base.errors import ArtifactError, KernelArgumentError
from nki.base.warning import NkiPortabilityWarning, warn_here
from nki.ir.program import Program
from nki.ir.text import artifact

NEFF = "kernel.neff"
"""The name of the file in a folder of artifacts."""


def save(program: Program, file: str | Path) -> Path:
    """Write ``program`` under the name that a harness has chosen, and return it; folders are made. Warns."""
    path = Path(file)
    warn_here(
        f"'{path.name}' is an artifact of Open NKI (the content of a .klir file), which nki.runtime loads; it is no "
        "NEFF, and Neuron tools cannot read it",
        NkiPortabilityWarning,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact.dumps(program))
    except OSError as error:
        raise ArtifactError(
            f"{path} cannot be written: {error.strerror}", fix="name a file in another folder"
        ) from None
    return path


def warn_of_trace(name: object) -> None:
    """Warn that no trace of the hardware (an NTFF file) is written under ``name``."""
    warn_here(
        f"no trace {str(name)!r} is written: it records engines of Trainium, and the kernel runs on this machine's CPU",
        NkiPortabilityWarning,
    )


def check_options(function: str, options: dict[str, Any], known: frozenset[str]) -> None:
    """Raise :class:`KernelArgumentError` for options that ``function`` does not take."""
    if unknown := sorted(set(options) - known):
        raise KernelArgumentError(f"{function} has no option {unknown}", fix=f"use {', '.join(sorted(known))}")
