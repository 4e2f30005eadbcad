"""The calls of kernels in an HLO module, as text or as XLA's ``HloProto`` or ``HloModuleProto``.

``NEURON_FRAMEWORK_DEBUG=1`` writes the latter two (``docs/torch_xla.md``). Only the fields that name a kernel are read;
numbers of fields: ``xla/service/hlo.proto`` and ``xla/xla_data.proto``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from nki.compilation.launch_errors import ModelFileError

_TARGET: Final = "AwsNeuronCustomNativeKernel"
_CONFIG: Final = re.compile(r"eyJ[\w+/]+=*")
"""JSON in base64, bare or in the dictionary of XLA's typed interface."""
_LINE: Final = re.compile(rf'custom-call\(.*custom_call_target="{_TARGET}"')
_METADATA: Final = {
    name: re.compile(rf'\b{name}="((?:[^"\\]|\\.)*)"') for name in ("op_type", "op_name", "source_file")
}
_COMPUTATIONS, _INSTRUCTIONS, _CALL_TARGET, _BACKEND_CONFIG, _OP_METADATA = 3, 2, 28, 43, 7
_PARTS: Final = {1: "op_type", 2: "op_name", 3: "source_file"}


def is_hlo(data: bytes) -> bool:
    """True if ``data`` may be an HLO module: its text, or a message of protocol buffers."""
    return data.startswith(b"HloModule ") or (data[:1] == b"\n" and _TARGET.encode() in data)


def kernel_calls(data: bytes, origin: str) -> list[dict[str, Any]]:
    """The calls in order: ``op_type`` and ``op_name`` of the graph, ``kernel``, ``target``, ``inputs``, ``outputs``.

    Raises :class:`ModelFileError` for a damaged file.
    """
    try:
        calls = _of_text(data.decode()) if data.startswith(b"HloModule ") else _of_message(data)
        return [_described(metadata, config) for metadata, config in calls]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ModelFileError(f"{origin} is no HLO module that can be read: {error}", fix="write it again") from None


def _described(metadata: dict[str, str], text: str) -> dict[str, Any]:
    config = json.loads(base64.b64decode(_CONFIG.findall(text)[0]))
    binary = config["klir_binary"]
    return {
        **dict.fromkeys(_PARTS.values(), ""),
        **metadata,
        "kernel": str(config["func_name"]),
        "target": str(config.get("platform_target", "")),
        "inputs": [str(name) for name in binary["input_names"]],
        "outputs": [str(name) for name in binary["output_names"]],
    }


def _of_text(text: str) -> list[tuple[dict[str, str], str]]:
    lines = [line for line in text.splitlines() if _LINE.search(line)]
    found = [{name: match[1] for name, part in _METADATA.items() if (match := part.search(line))} for line in lines]
    return list(zip(found, lines, strict=True))


def _of_message(data: bytes) -> list[tuple[dict[str, str], str]]:
    """The calls of a module, or of a message with one as its first field."""
    try:
        found = _of_module(data)
    except (ValueError, IndexError):
        found = []
    return found or [call for number, part in _fields(data) if number == 1 for call in _of_module(part)]


def _of_module(data: bytes) -> list[tuple[dict[str, str], str]]:
    calls: list[tuple[dict[str, str], str]] = []
    for computation in (part for number, part in _fields(data) if number == _COMPUTATIONS):
        for instruction in (part for number, part in _fields(computation) if number == _INSTRUCTIONS):
            parts = dict(_fields(instruction))
            if parts.get(_CALL_TARGET) == _TARGET.encode():
                metadata = dict(_fields(parts.get(_OP_METADATA, b"")))
                named = {name: metadata[number].decode() for number, name in _PARTS.items() if number in metadata}
                calls.append((named, parts[_BACKEND_CONFIG].decode()))
    return calls


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and contents of the fields of a message, those with a length alone."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("a field is longer than the file")
            yield key >> 3, data[at : at + size]
            at += size
        elif kind == 0:
            _, at = _varint(data, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field has wire type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while data[at] > 127:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


__all__ = ["is_hlo", "kernel_calls"]
