"""The part of the C interface between XLA and a custom call that kernels need: buffers, string attributes, errors.

Mirrors the structures of ``xla/ffi/api/c_api.h`` (a stable ABI; fields are only ever appended). :func:`handler` makes a
foreign function out of a Python function.
"""

from __future__ import annotations

import ctypes
import struct
import weakref
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from typing import TYPE_CHECKING, Any, Final, Protocol

from nki.backend.cpu.native.callbacks import INTERRUPTED, ErrorTable, foreign_function
from nki.base import element_types as dtypes
from nki.base import threads
from nki.compilation.launch_errors import note_version
from nki.frameworks.kernel_adapter import Operand

if TYPE_CHECKING:
    from nki.base.element_types import DType

# XLA_FFI_DataType, which equals PrimitiveType of xla_data.proto.
DTYPES: Final[dict[int, DType]] = {
    1: dtypes.bool_,
    2: dtypes.int8,
    3: dtypes.int16,
    4: dtypes.int32,
    5: dtypes.int64,
    6: dtypes.uint8,
    7: dtypes.uint16,
    8: dtypes.uint32,
    9: dtypes.uint64,
    10: dtypes.float16,
    11: dtypes.float32,
    16: dtypes.bfloat16,
    19: dtypes.float8_e5m2,
    20: dtypes.float8_e4m3fn,
    28: dtypes.float8_e4m3,
    33: dtypes.float8_e8m0fnu,
}
CONFIG: Final = b"backend_config"
KERNEL: Final = b"kernel"
BATCH: Final = b"batch"
RANKS: Final = b"ranks"
"""Names of the attributes that a call may have."""
_INTERNAL: Final = 13  # XLA_FFI_Error_Code_INTERNAL
_STRING: Final = 4  # XLA_FFI_AttrType_STRING
_EXTENSION_METADATA: Final = 1  # XLA_FFI_Extension_Metadata


class _Header(Structure):
    _fields_ = (("struct_size", c_size_t), ("extension_start", c_void_p))


class _Extension(Structure):
    _fields_ = (("struct_size", c_size_t), ("type", c_int32), ("next", c_void_p))


class _Version(_Header):
    _fields_ = (("major", c_int32), ("minor", c_int32))


class _Metadata(Structure):
    _fields_ = (("struct_size", c_size_t), ("api_version", _Version), ("traits", c_uint32))


class _MetadataExtension(_Extension):
    _fields_ = (("metadata", POINTER(_Metadata)),)


class _ErrorArgs(_Header):
    _fields_ = (("message", c_char_p), ("code", c_int32))


class _Bytes(Structure):
    """XLA_FFI_ByteSpan."""

    _fields_ = (("address", c_void_p), ("size", c_size_t))


class _Registration(_Header):
    """XLA_FFI_Handler_Register_Args; of the stages of a call only the last is ours."""

    _fields_ = (
        ("name", _Bytes),
        ("platform", _Bytes),
        ("instantiate", c_void_p),
        ("prepare", c_void_p),
        ("initialize", c_void_p),
        ("execute", c_void_p),
        ("traits", c_uint32),
    )


class _Message(_Header):
    """XLA_FFI_Error_GetMessage_Args."""

    _fields_ = (("error", c_void_p), ("message", c_char_p))


class _RunId(_Header):
    """XLA_FFI_RunId_Get_Args."""

    _fields_ = (("context", c_void_p), ("run_id", c_int64))


class _Future(_Header):
    """XLA_FFI_Future_Create_Args, _SetAvailable_Args and, with the error, _SetError_Args."""

    _fields_ = (("future", c_void_p), ("error", c_void_p))


class _Api(_Header):
    _fields_ = (
        ("api_version", _Version),
        ("internal", c_void_p),
        ("error_create", ctypes.CFUNCTYPE(c_void_p, POINTER(_ErrorArgs))),
        ("error_get_message", ctypes.CFUNCTYPE(None, POINTER(_Message))),
        ("error_destroy", c_void_p),
        ("handler_register", ctypes.CFUNCTYPE(c_void_p, POINTER(_Registration))),
        ("others", c_void_p * 9),
        ("future_create", ctypes.CFUNCTYPE(c_void_p, POINTER(_Future))),
        ("future_set_available", ctypes.CFUNCTYPE(c_void_p, POINTER(_Future))),
        ("future_set_error", ctypes.CFUNCTYPE(c_void_p, POINTER(_Future))),
        ("run_id_get", ctypes.CFUNCTYPE(c_void_p, POINTER(_RunId))),
    )


class _Buffers(_Header):
    """XLA_FFI_Args and XLA_FFI_Rets."""

    _fields_ = (("size", c_int64), ("types", c_void_p), ("values", POINTER(c_void_p)))


class _Attributes(_Header):
    _fields_ = (
        ("size", c_int64),
        ("types", POINTER(c_int32)),
        ("names", POINTER(c_void_p)),
        ("values", POINTER(c_void_p)),
    )


class _Frame(_Header):
    """XLA_FFI_CallFrame."""

    _fields_ = (
        ("api", POINTER(_Api)),
        ("context", c_void_p),
        ("stage", c_int32),
        ("arguments", _Buffers),
        ("results", _Buffers),
        ("attributes", _Attributes),
        ("future", c_void_p),
    )


class _Buffer(_Header):
    _fields_ = (("dtype", c_int32), ("data", c_void_p), ("rank", c_int64), ("dims", POINTER(c_int64)))


def _operands(buffers: Any) -> list[Operand]:
    found: list[Operand] = []
    for i in range(buffers.size):
        b = _Buffer.from_address(buffers.values[i])
        found.append((b.data, tuple(b.dims[: b.rank]), DTYPES.get(b.dtype)))
    return found


def _string(attributes: Any, name: bytes) -> bytes:
    """The string attribute ``name`` of a call; empty if the call has none."""
    for i in range(attributes.size):
        if attributes.types[i] == _STRING and _bytes(attributes.names[i]) == name:
            return _bytes(attributes.values[i])
    return b""


def _bytes(address: int) -> bytes:
    span = _Bytes.from_address(address)
    return ctypes.string_at(span.address, span.size)


_MEMORY: Final = memoryview((ctypes.c_ubyte * (1 << 62)).from_address(0)).cast("B")
"""All memory of the process. Only parts that XLA names may be read; ctypes' structures take five times as long."""
_FRAME: Final = struct.Struct("=8xq16xi4x16xq8xq16xq8xq16x4q")
"""Of _Frame: extension, stage, number and addresses of the arguments, of the results, and of the attributes."""
_BUFFER: Final = struct.Struct("=16xi4x3q")
"""Of _Buffer: dtype, data, rank, address of the dimensions."""
_SPAN: Final = struct.Struct("=2q")
_WORD: Final = struct.Struct("=q")
_MOST_BUFFERS: Final = 64
_WORDS: Final[list[struct.Struct]] = [struct.Struct(f"={count}q") for count in range(_MOST_BUFFERS + 1)]
_MOST_KNOWN: Final = 4096


def _glance(address: int) -> tuple[tuple[Any, ...], list[int]]:
    """All that distinguishes a call but the addresses of its buffers, and these; nothing for a call of another form.

    The form is the usual one: ``backend_config`` is the only attribute.
    """
    fields: tuple[int, ...] = _FRAME.unpack_from(_MEMORY, address)
    extension, _, arguments, their, results, its, attributes, types, names, values = fields
    if extension or attributes != 1 or arguments + results > _MOST_BUFFERS or _MEMORY[types] != _STRING:
        return (), []
    name, size = _SPAN.unpack_from(_MEMORY, *_WORD.unpack_from(_MEMORY, names))
    if _MEMORY[name : name + size].tobytes() != CONFIG:
        return (), []
    text, size = _SPAN.unpack_from(_MEMORY, *_WORD.unpack_from(_MEMORY, values))
    key: list[Any] = [_MEMORY[text : text + size].tobytes(), arguments]
    pointers: list[int] = []
    buffers: tuple[int, ...] = _WORDS[arguments].unpack_from(_MEMORY, their) + _WORDS[results].unpack_from(_MEMORY, its)
    for buffer in buffers:
        fields = _BUFFER.unpack_from(_MEMORY, buffer)
        dtype, data, rank, dimensions = fields
        key += dtype, _WORDS[rank].unpack_from(_MEMORY, dimensions)
        pointers.append(data)
    return tuple(key), pointers


class Launchable(Protocol):
    """The callee of calls that differ in nothing but the addresses of their buffers."""

    def launch(self, pointers: Sequence[int], /) -> None: ...


class Call:
    """A call, as long as its handler runs."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def attribute(self, name: bytes) -> bytes:
        """The string attribute ``name``, which may be long; empty if the call has none."""
        return _string(self._frame.attributes, name)

    def site(self) -> tuple[int, int]:
        """The run of XLA, one number on all of its devices, and the place of the call in the program that runs."""
        arguments = _RunId(ctypes.sizeof(_RunId), None, self._frame.context)
        self._frame.api.contents.run_id_get(ctypes.byref(arguments))
        return arguments.run_id, self._frame.attributes.values[0]

    def later(self, work: Callable[[], object]) -> None:
        """Let the call end when ``work`` has ended, in a thread of its own: XLA has few, and this one may wait."""
        api = self._frame.api.contents
        future = _Future(_Future.error.offset, None)
        api.future_create(ctypes.byref(future))
        threads.start(_complete, api, future, work)
        self._frame.future = future.future


def _complete(api: Any, future: Any, work: Callable[[], object]) -> None:
    try:
        work()
    except BaseException as error:
        future.struct_size, future.error = ctypes.sizeof(_Future), _error(api, error)
        api.future_set_error(ctypes.byref(future))
    else:
        api.future_set_available(ctypes.byref(future))


def _error(api: Any, error: BaseException) -> int:
    """The address of XLA's error with the text of ``error``."""
    if isinstance(error, Exception):
        note_version(error)
    name, notes = type(error).__name__, getattr(error, "__notes__", ())
    message = "\n".join([f"{error}" or name, *notes])
    encoded = message.encode(errors="backslashreplace")  # a text may hold what is no character
    arguments = _ErrorArgs(ctypes.sizeof(_ErrorArgs), None, encoded, _INTERNAL)
    return int(api.error_create(ctypes.byref(arguments)) or 0)


Execute = Callable[[bytes, Call, list[Operand], list[Operand]], "Launchable | None"]


def _nothing() -> None:
    """No callee."""


def handler(execute: Execute) -> int:
    """The address of a C function that calls ``execute(config, call, arguments, results)``.

    ``execute`` may return what it has launched on the addresses of all buffers: later calls that differ in nothing else
    launch that at once, as long as something else keeps it alive.

    ``config`` is the string attribute ``backend_config`` of the ``call``, which has others. Any exception becomes XLA's
    error status, with the exception's text.
    """
    known: dict[tuple[Any, ...], Callable[[], Launchable | None]] = {}

    def call(address: int) -> int:
        try:
            key, pointers = _glance(address)
            callee = known.get(key, _nothing)()
            if callee is not None:
                callee.launch(pointers)
                return 0
            frame = _Frame.from_address(address)
            if frame.extension_start:
                _describe(frame)
                return 0
            config = _string(frame.attributes, CONFIG)
            operands = _operands(frame.arguments), _operands(frame.results)
            callee = execute(config, Call(frame), *operands)
            if key and callee is not None:
                if len(known) >= _MOST_KNOWN:
                    known.clear()
                known[key] = weakref.ref(callee)
            return 0
        except BaseException as error:
            status = _error(_Frame.from_address(address).api.contents, error)
            return status | INTERRUPTED if isinstance(error, KeyboardInterrupt) else status

    _handlers.append(call)
    return foreign_function(call, _ERRORS)


def register(api: int, name: str, platform: str, function: int) -> None:
    """Register the C function at address ``function`` with the XLA that has its table of functions at ``api``.

    Raises RuntimeError if XLA refuses.
    """
    texts = [ctypes.create_string_buffer(text.encode()) for text in (name, platform)]
    spans = [_Bytes(ctypes.addressof(text), len(text) - 1) for text in texts]
    arguments = _Registration(ctypes.sizeof(_Registration), None, *spans, execute=function)
    functions = _Api.from_address(api)
    _registering.append(api)
    error = functions.handler_register(ctypes.byref(arguments))
    if error:
        message = _Message(ctypes.sizeof(_Message), None, error)
        functions.error_get_message(ctypes.byref(message))
        raise RuntimeError(f"XLA does not register {name}: {(message.message or b'').decode(errors='replace')}")


_registering: Final[list[int]] = []
"""The tables of functions of :func:`register`. An XLA of 2025 passes none with its question for the version."""
_handlers: Final[list[Callable[[int], int]]] = []
"""XLA may call a handler as long as the process lives."""
_ERRORS: Final = ErrorTable(
    api=_Frame.api.offset,
    create=_Api.error_create.offset,
    size=ctypes.sizeof(_ErrorArgs),
    message=_ErrorArgs.message.offset,
    code=_ErrorArgs.code.offset,
    internal=_INTERNAL,
)


def _describe(frame: Any) -> None:
    """Answer XLA's question for which version this handler was made: any that keeps the fields above."""
    extension = _MetadataExtension.from_address(frame.extension_start)
    if extension.type == _EXTENSION_METADATA:
        metadata = extension.metadata.contents
        api = frame.api.contents if frame.api else _Api.from_address(_registering[-1])
        metadata.api_version.major, metadata.api_version.minor = api.api_version.major, api.api_version.minor
        metadata.traits = 0
