"""An HLO module with one custom call, as the bytes of XLA's ``HloModuleProto``.

Written field by field, because neither XLA's protocol buffers nor a builder with custom calls are part of torch_xla's
Python interface. Numbers of fields: ``xla/service/hlo.proto`` and ``xla/xla_data.proto``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from nki.frameworks.xla_ffi import DTYPES

if TYPE_CHECKING:
    from nki.ir.types import TensorSpec

TYPED_FFI: Final = 4
UNSPECIFIED: Final = 0
"""Values of ``CustomCallApiVersion``: for XLA's typed interface, and for the vendor's graphs."""
_ENTRY: Final = "main.1"  # XLA's builder numbers names anew, and wants a number to replace
_TUPLE: Final = 13  # PrimitiveType TUPLE
_NUMBERS: Final = {dtype.plain: number for number, dtype in DTYPES.items()}


def module(
    name: str,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    *,
    target: str,
    api_version: int,
    backend_config: str,
    operation: str,
    aliases: Mapping[int, int],
) -> bytes:
    """A module with parameters ``inputs``, which returns the tuple of ``outputs`` of one custom call.

    ``operation`` is the call's ``op_type`` and ``op_name``; ``aliases`` has the output that shares the storage of an
    input, by the input's position.
    """
    shapes = [_shape(spec) for spec in (*inputs, *outputs)]
    ins, outs = shapes[: len(inputs)], shapes[len(inputs) :]
    several = len(outs) > 1
    instructions = [
        _instruction(i + 1, spec.name, "parameter", shape, _field(9, i))
        for i, (spec, shape) in enumerate(zip(inputs, ins, strict=True))
    ]
    number = len(ins) + 1
    call = [
        _packed(36, range(1, number)),
        _field(28, target),
        _field(77, api_version),
        _field(43, backend_config),
        _field(7, _field(1, operation) + _field(2, operation)),
    ]
    call += [_field(74, (_packed(1, [o]) if several else b"") + _field(2, i)) for i, o in aliases.items()]
    instructions.append(_instruction(number, "nki_call", "custom-call", _tuple(outs) if several else outs[0], *call))
    parts = [number]
    if several:
        parts = [number + 1 + o for o in range(len(outs))]
        for o, shape in enumerate(outs):
            element = _packed(36, [number]) + _field(13, o)
            instructions.append(_instruction(parts[o], f"part_{o}", "get-tuple-element", shape, element))
    root = parts[-1] + 1
    instructions.append(_instruction(root, "results", "tuple", _tuple(outs), _packed(36, parts)))
    signature = b"".join(_field(1, shape) for shape in ins) + _field(2, _tuple(outs))
    signature += b"".join(_field(3, spec.name) for spec in inputs)
    entry = _field(1, _ENTRY) + b"".join(_field(2, inst) for inst in instructions)
    own = root + 1  # numbers of computations and instructions are of one kind
    entry += _field(4, signature) + _field(5, own) + _field(6, root)
    names = _field(1, name) + _field(2, _ENTRY) + _field(6, own)
    return names + _field(3, entry) + _field(4, signature) + _field(5, own)


def _instruction(number: int, name: str, opcode: str, shape: bytes, *others: bytes) -> bytes:
    return _field(1, f"{name}.{number}") + _field(2, opcode) + _field(3, shape) + _field(35, number) + b"".join(others)


def _shape(spec: TensorSpec) -> bytes:
    rank = len(spec.shape)
    layout = _packed(1, reversed(range(rank)))
    return _field(2, _NUMBERS[spec.dtype.plain]) + _packed(3, spec.shape) + _field(5, layout)


def _tuple(shapes: Sequence[bytes]) -> bytes:
    return _field(2, _TUPLE) + b"".join(_field(4, shape) for shape in shapes)


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _packed(number: int, values: Iterable[int]) -> bytes:
    return _field(number, b"".join(map(_varint, values)))


def _varint(value: int) -> bytes:
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)
