"""The options of ``nki.jit``, checked; :func:`nki.jit.jit` documents them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nki import target as targets
from nki.base.errors import KernelArgumentError
from nki.base.locks import imported
from nki.base.warning import NkiDeprecationWarning, stamped
from nki.frontend.dialect import Dialect, release
from nki.target.model import Target

if TYPE_CHECKING:
    from nki.compilation.vendor_options import Configs

_MEASURING: Final = ("benchmark", "profile")
"""Modes that are functions of their own."""
WITHOUT_EFFECT: Final = ("mode", "debug_kernel", "show_compiler_tb", "experimental_flags")
"""Options of older releases that change nothing."""
_ACCEPTED: Final = frozenset({
    "check", "compile_config", "nki_version", "platform_target", "specialization_config", *WITHOUT_EFFECT,
})  # fmt: skip
_MODES: Final = ("auto", "jax", "torchxla", "baremetal", "benchmark", "profile", "simulation", "trace")
"""Values of ``mode`` in the releases that had it (NKI reference, nki.jit)."""
_CALLER: Final = 3
"""Frames from the warnings below to the user's, behind ``jit``."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JitOptions:
    """The options that have an effect, None where they are not given."""

    target: Target | None = None
    check: bool = False
    configs: Configs | None = None
    dialect: Dialect | None = None
    simulated: bool = False
    """A call runs in the simulator."""


def checked(options: dict[str, Any]) -> JitOptions:
    """The options of a call of ``nki.jit``; raises :class:`KernelArgumentError` for others, :class:`ReleaseError` for
    an unknown release. Warns of deprecated ones.
    """
    version = options.get("nki_version")
    dialect = None if version is None else release(version)
    warns = dialect is None or dialect.dropped("0.3")
    mode = options.get("mode", "auto")
    if mode not in _MODES:
        raise KernelArgumentError(
            f"nki.jit has no mode {mode!r}", fix="leave `mode` out: the arguments of a call tell the framework"
        )
    if mode in _MEASURING:
        raise KernelArgumentError(
            f"nki.jit(mode={mode!r}): a call of a kernel measures nothing",
            fix=f"leave `mode` out, and write nki.{mode}(kernel)(…)",
        )
    if mode != "auto" and warns:
        warnings.warn(
            stamped(
                "nki.jit(mode=…) is deprecated since NKI 0.3: leave it out, "
                + ("and write nki.simulate(kernel)(…)" if mode == "simulation" else "the arguments tell the framework")
            ),
            NkiDeprecationWarning,
            stacklevel=_CALLER,
        )
    if unknown := set(options) - _ACCEPTED:
        raise KernelArgumentError(f"nki.jit has no option {sorted(unknown)}", fix=f"use {', '.join(sorted(_ACCEPTED))}")
    target = options.get("platform_target")
    if target is not None and warns:
        warnings.warn(
            stamped("nki.jit(platform_target=…) is deprecated; set NEURON_PLATFORM_TARGET_OVERRIDE instead"),
            NkiDeprecationWarning,
            stacklevel=_CALLER,
        )
    configs = options.get("compile_config"), options.get("specialization_config")
    return JitOptions(
        target=None if target is None else targets.find(target),
        check=bool(options.get("check", False)),
        configs=None if configs == (None, None) else imported("nki.compilation.vendor_options").checked(*configs),
        dialect=dialect,
        simulated=mode == "simulation",
    )


__all__ = ["WITHOUT_EFFECT", "JitOptions", "checked"]
