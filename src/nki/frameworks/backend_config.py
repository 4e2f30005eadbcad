"""``backend_config``: what a custom call in an XLA graph says about its kernel.

The text is JSON in base64. Field names follow the vendor's graphs: those that NKI 0.2 wrote (shown in "NKI Kernel as a
Framework Custom Operator") and the richer ones since 0.3. Both are read; ours have the form of NKI 0.4, with
``kernel_format`` ``"open-nki"``, because ``klir_binary.binary`` names a file of this package.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Final, cast

from nki.base.framework_errors import BackendConfigError

CUSTOM_CALL_TARGET: Final = "AwsNeuronCustomNativeKernel"
KERNEL_FORMAT: Final = "open-nki"
_KERNEL_VERSION: Final = 1
_ALIASED: Final = ".must_alias_input"
"""Ends the name of an input that shares its storage with an output."""
_RECOMPILE: Final = "trace the program again with this package, which writes a config of its own"


@dataclass(frozen=True)
class BackendConfig:
    """The decoded form. ``binary`` is an absolute path, or the reference of a kernel that the graph
    holds (:mod:`nki.frameworks.embedded`); ``grid`` is empty for a kernel on one core, else it holds the
    number of cores.

    ``aliases`` pairs the position of an input with the position of the output that shares its storage.
    """

    func_name: str
    binary: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    grid: tuple[int, ...] = ()
    has_collectives: bool = False
    kernel_format: str = KERNEL_FORMAT
    platform_target: str = ""
    aliases: tuple[tuple[int, int], ...] = ()

    def encode(self) -> str:
        """Base64 of the JSON form. Equal configs give equal text, so graphs that use one can be cached by it."""
        aliased = {i for i, _ in self.aliases}
        binary: dict[str, Any] = {
            "binary": self.binary,
            "input_names": [name + _ALIASED * (i in aliased) for i, name in enumerate(self.input_names)],
            "output_names": list(self.output_names),
            "version_identifier": "",
            "aliases": [list(pair) for pair in self.aliases],
        }
        fields: dict[str, Any] = {
            "func_name": self.func_name,
            "platform_target": self.platform_target,
            "kernel_format": self.kernel_format,
            "kernel_version": _KERNEL_VERSION,
            "klir_binary": binary,
            "grid": self.grid[0] if self.grid else [],
            "has_collectives": self.has_collectives,
        }
        return base64.b64encode(json.dumps(fields).encode()).decode()

    @classmethod
    def decode(cls, text: str | bytes) -> BackendConfig:
        """Read a config of NKI 0.2, of NKI 0.3 or later, or of this package.

        Raises :class:`BackendConfigError` for text that is no config, and for the configs of Beta 1 and before: their
        kernel is a serialised program that only the compiler of that release understands.
        """
        fields = _json(text)
        if "func_literal" in fields:
            raise BackendConfigError(
                f"backend_config holds kernel {fields.get('func_name', '?')!r} as the serialised program of a compiler "
                "of NKI Beta 1 (func_literal)",
                fix=_RECOMPILE,
            )
        version = fields.get("kernel_version")
        if version != _KERNEL_VERSION:
            raise BackendConfigError(
                f"backend_config has kernel_version {version!r}; this package reads version {_KERNEL_VERSION}",
                fix=_RECOMPILE,
            )
        try:
            binary = cast("dict[str, Any]", fields["klir_binary"])
            # NKI 0.2 writes a list; since 0.4 it is the number of cores, where 1 means no grid.
            grid = fields.get("grid", [])
            return cls(
                func_name=str(fields["func_name"]),
                binary=str(binary["binary"]),
                input_names=tuple(str(name).removesuffix(_ALIASED) for name in binary["input_names"]),
                output_names=tuple(map(str, binary["output_names"])),
                grid=(() if grid == 1 else (grid,)) if isinstance(grid, int) else tuple(map(int, grid)),
                has_collectives=bool(fields.get("has_collectives", False)),
                # The vendor wrote no format before 0.3; its file then is KLIR.
                kernel_format=str(fields.get("kernel_format", "klir")),
                platform_target=str(fields.get("platform_target", "")),
                aliases=tuple((int(i), int(o)) for i, o in binary.get("aliases", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BackendConfigError(
                f"backend_config lacks a field or has one of the wrong type: {error}", fix=_RECOMPILE
            ) from error

    def check_runnable(self) -> None:
        """Raise :class:`BackendConfigError` unless the kernel's file is one that this package writes."""
        if self.kernel_format != KERNEL_FORMAT:
            raise BackendConfigError(
                f"kernel {self.func_name!r} was compiled by another toolchain (kernel_format {self.kernel_format!r}, "
                f"file {self.binary})",
                fix=_RECOMPILE,
            )


def _json(text: str | bytes) -> dict[str, Any]:
    try:
        fields = json.loads(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise BackendConfigError(f"backend_config is not JSON in base64: {error}", fix=_RECOMPILE) from error
    if not isinstance(fields, dict):
        raise BackendConfigError(f"backend_config is a JSON {type(fields).__name__}, not an object", fix=_RECOMPILE)
    return cast("dict[str, Any]", fields)
