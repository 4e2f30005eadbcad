"""Programs of ``jax.export`` as bytes. JAX's loader reads a FlatBuffer with a StableHLO module, which is no Python."""

# JAX declares types only in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
from typing import Any, Final

import jax
from jax import export

from nki.compilation.launch_errors import ModelFileError
from nki.frameworks.backend_config import CUSTOM_CALL_TARGET, BackendConfig
from nki.frameworks.jax import ADAPTER  # its import registers the target

CHECKS: Final = (export.DisabledSafetyCheck.custom_call(CUSTOM_CALL_TARGET),)
"""The ``disabled_checks`` that ``jax.export.export`` needs for a function with kernels."""
_CALL: Final = re.compile(rf'@{CUSTOM_CALL_TARGET}\b[^\n]*backend_config = "([\w+/=]+)", kernel = "([\w+/=]+)"')
_CALLS: Final = re.compile(rf"@{CUSTOM_CALL_TARGET}\b")


def exported(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> export.Exported:
    """The program of ``function``, jitted or not, or a program that is exported already."""
    if isinstance(function, export.Exported):
        return function
    jitted = function if hasattr(function, "trace") else jax.jit(function)
    kwargs: dict[str, Any] = options.pop("kwargs", {})
    checks = (*CHECKS, *options.pop("disabled_checks", ()))
    return export.export(jitted, disabled_checks=checks, **options)(*args, **kwargs)


def to_bytes(program: export.Exported) -> bytes:
    """The bytes of ``Exported.serialize``."""
    return bytes(program.serialize())


def from_bytes(data: bytes, origin: str) -> export.Exported:
    """The program in ``data``. Raises :class:`ModelFileError`."""
    try:
        return export.deserialize(bytearray(data))
    except ImportError:
        raise
    except Exception as error:  # JAX documents no common base for what damaged programs can raise
        raise ModelFileError(
            f"{origin}: JAX {jax.__version__} cannot load the program: {type(error).__name__}: {error!s:.300}",
            fix="load it with the version of JAX that `nki info` names, or export the model again",
        ) from error


def kernels(program: export.Exported) -> list[str]:
    """The kernels that the program calls, each once, in the order of its text."""
    text = program.mlir_module()
    calls = _CALL.findall(text)
    if len(calls) != len(_CALLS.findall(text)):
        raise ModelFileError(
            "the program calls a kernel that it does not hold",
            fix="export the function again with this version of open-nki, for platforms=('cpu',)",
        )
    return list(dict.fromkeys(f"{BackendConfig.decode(config).binary}:{kernel}" for config, kernel in calls))


def signature(program: export.Exported) -> tuple[list[str], list[str]]:
    """Inputs and outputs of the program, as text for ``nki info``."""
    return [a.str_short() for a in program.in_avals], [a.str_short() for a in program.out_avals]


__all__ = ["ADAPTER", "CHECKS", "exported", "from_bytes", "kernels", "signature", "to_bytes"]
