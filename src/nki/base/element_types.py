"""The element types of NKI.

A :class:`DType` is usable wherever NumPy wants a dtype (``np.zeros(n, dtype=nl.bfloat16)``,
``array.dtype == nl.float8_e4m3``) and prints as its NKI name. Names and formats: NKI reference, "Supported Data
Types".
"""

from __future__ import annotations

from typing import Any, Final, cast, final

import ml_dtypes
import numpy as np

from nki.base import packed_dtypes
from nki.base.errors import UnknownDTypeError


@final
class DType:
    """One element type. Not a dataclass: ``dataclasses.asdict`` of what holds one would take it apart.

    ``kind`` is ``"b"`` (bool), ``"i"`` (signed), ``"u"`` (unsigned), ``"f"`` (float) or ``"x"`` (packed, four elements
    in one); ``dtype`` is the NumPy type of its arrays (NumPy finds it under that name); ``computes`` says whether
    instructions can calculate with it; ``largest`` is the largest finite magnitude of the format; ``element`` is the
    NumPy type of each of the four numbers of a packed element; the lowest bits are the first. ``plain`` is the NumPy
    type that calculates with what is stored: ``dtype``, and for packed elements the type of the word.
    """

    __slots__ = ("computes", "dtype", "element", "itemsize", "kind", "largest", "name", "plain")

    def __init__(
        self,
        name: str,
        kind: str,
        itemsize: int,
        dtype: np.dtype[Any],
        computes: bool = True,
        largest: float = float("inf"),
        element: np.dtype[Any] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.itemsize = itemsize
        self.dtype = dtype
        self.computes = computes
        self.largest = largest
        self.element = element
        self.plain: np.dtype[Any] = dtype if element is None else np.dtype(f"u{itemsize}")

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return of, (self.name,)  # copies and pickles are the type itself

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self is other
        if isinstance(other, str):
            return other in (self.name, self.dtype.name)
        if isinstance(other, np.dtype):
            return self.dtype == other or _named(cast("np.dtype[Any]", other)) is self
        if isinstance(other, type):
            try:
                return self.dtype == np.dtype(other)
            except TypeError:
                return False
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    @property
    def poison(self) -> bytes:
        """The contents of unwritten memory: NaN in floats, a conspicuous pattern in integers, False in bool."""
        return _POISON.get(self.name, b"\x5a" * self.itemsize)

    @property
    def is_integer(self) -> bool:
        return self.kind in "iu"

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_packed(self) -> bool:
        return self.kind == "x"


def _integer(name: str, computes: bool = True) -> DType:
    info = np.iinfo(name)
    return DType(name, info.kind, info.bits // 8, np.dtype(name), computes, float(info.max))


def _float(name: str, storage: Any, computes: bool = True) -> DType:
    dtype = np.dtype(storage)
    limits = cast("Any", ml_dtypes.finfo(dtype))  # its attributes are declared without types
    return DType(name, "f", dtype.itemsize, dtype, computes, float(limits.max))


def _packed(name: str, element: Any) -> DType:
    """Four 8-bit, or four 4-bit, numbers in one word."""
    limits = cast("Any", ml_dtypes.finfo(element))
    word = np.dtype(f"u{limits.bits // 2}")
    packed = packed_dtypes.dtype(name, word)
    return DType(name, "x", word.itemsize, packed, False, float(limits.max), np.dtype(element))


bool_ = DType("bool", "b", 1, np.dtype(np.bool_), largest=1.0)
int8 = _integer("int8")
int16 = _integer("int16")
int32 = _integer("int32")
uint8 = _integer("uint8")
uint16 = _integer("uint16")
uint32 = _integer("uint32")
int64 = _integer("int64", computes=False)
uint64 = _integer("uint64", computes=False)
float32 = _float("float32", np.float32)
float16 = _float("float16", np.float16)
bfloat16 = _float("bfloat16", ml_dtypes.bfloat16)
# tfloat32 occupies a 32-bit word; its low 13 mantissa bits are zero.
tfloat32 = DType("tfloat32", "f", 4, np.dtype(np.float32), largest=float(np.float32(3.4011621342146535e38)))
float8_e4m3 = _float("float8_e4m3", ml_dtypes.float8_e4m3)
float8_e4m3fn = _float("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e5m2 = _float("float8_e5m2", ml_dtypes.float8_e5m2)
float8_e8m0fnu = _float("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, computes=False)
float8_e4m3fn_x4 = _packed("float8_e4m3fn_x4", ml_dtypes.float8_e4m3fn)
float8_e5m2_x4 = _packed("float8_e5m2_x4", ml_dtypes.float8_e5m2)
float4_e2m1fn_x4 = _packed("float4_e2m1fn_x4", ml_dtypes.float4_e2m1fn)

_NAN: Final = (float32, tfloat32, float16, bfloat16, float8_e4m3, float8_e4m3fn, float8_e5m2)
_POISON: Final = {"bool": b"\0", **{d.name: np.array(np.nan, d.dtype).tobytes() for d in _NAN}}

# Order matters where two names share a NumPy type: the first is what an array of that type becomes.
ALL: Final = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
    float32, float16, bfloat16, tfloat32, float8_e4m3, float8_e4m3fn, float8_e5m2, float8_e8m0fnu,
    float8_e4m3fn_x4, float8_e5m2_x4, float4_e2m1fn_x4,
)  # fmt: skip
BY_NAME: Final = {d.name: d for d in ALL}
_BY_NUMPY: Final = {d.dtype: d for d in reversed(ALL)}


_USUAL = {
    "bf16": "bfloat16", "f16": "float16", "fp16": "float16", "half": "float16", "f32": "float32", "fp32": "float32",
    "i8": "int8", "i32": "int32", "u8": "uint8", "u32": "uint32", "fp8": "float8_e4m3", "float8": "float8_e4m3",
    "fp8_e4m3": "float8_e4m3", "fp8_e5m2": "float8_e5m2", "tf32": "tfloat32",
}  # fmt: skip
"""Texts that other libraries use for dtypes, and the names here."""


def of(value: Any) -> DType:
    """The NKI dtype for a :class:`DType`, an NKI or NumPy dtype name, or anything ``np.dtype`` accepts.

    A NumPy type without numbers that is named like a packed dtype, and as wide, is that one: other libraries have
    their own.

    Raises :class:`UnknownDTypeError` for a type that NKI does not have (float64, big-endian, objects).
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in BY_NAME:
        return BY_NAME[value]
    try:
        kind = np.dtype(value)
        dtype = _named(kind) or _BY_NUMPY.get(kind)
    except TypeError:
        dtype = None
    if dtype is None:
        near = _USUAL.get(value) if isinstance(value, str) else None
        fix = "convert to one of " + ", ".join(d.name for d in ALL if d.computes)
        raise UnknownDTypeError(f"dtype {value!r} is not an NKI dtype", fix=f"write `nl.{near}`" if near else fix)
    return dtype


def _named(kind: np.dtype[Any]) -> DType | None:
    dtype = BY_NAME.get(kind.type.__name__) if issubclass(kind.type, np.void) else None
    return dtype if dtype is not None and dtype.is_packed and dtype.itemsize == kind.itemsize else None
