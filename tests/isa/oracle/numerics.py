"""Number formats in integer arithmetic: reading storage into float32 and writing float32 back.

Nothing here uses NumPy's or ml_dtypes' conversions between formats (float32 <-> float64 widening aside, which is
exact): each float format is a row of five numbers and one rounding routine on the bits of a float64 serves them all.

Numbers travel through the oracles as float32 values in float64 arrays; :func:`round32` restores that
after an operation. One operation in float64 followed by :func:`round32` is correctly rounded for + - * / and sqrt,
because 53 >= 2 * 24 + 2.

Sources: NKI reference, "Supported Data Types" (bit layouts); IEEE 754 (f32, f16); OCP 8-bit floating point
specification (e5m2, e4m3fn). Cast on write: nearest, ties to even; integers saturate and NaN becomes 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Format:
    """A binary float format: field widths, exponent bias, and the codes (without sign) of its special values."""

    exponent: int
    mantissa: int
    bias: int
    largest: int
    infinity: int | None
    nan: int

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)


FORMATS: Final = {
    "float32": Format(8, 23, 127, 0x7F7F_FFFF, 0x7F80_0000, 0x7FC0_0000),
    "tfloat32": Format(8, 10, 127, 0x3_FBFF, 0x3_FC00, 0x3_FE00),
    "bfloat16": Format(8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "float16": Format(5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    "float8_e4m3": Format(4, 3, 7, 0x77, 0x78, 0x7C),
    "float8_e4m3fn": Format(4, 3, 7, 0x7E, None, 0x7F),
    "float8_e5m2": Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
}
INTEGERS: Final = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
}


def encode(values: Any, form: Format) -> Array:
    """The code (int64, sign included) of each float64 in ``form``: nearest, ties to even."""
    word = np.array(values, dtype=np.float64, order="C").view(np.int64)
    fraction = word & ((1 << 52) - 1)
    exponent = (word >> 52) & 0x7FF
    special = exponent == 0x7FF
    # The smallest float64 numbers are far below half of any format's smallest number, so subnormals count as zero.
    significand = np.where(exponent == 0, 0, fraction | (1 << 52))
    power = exponent - 1023
    floor = np.maximum(power, 1 - form.bias)
    drop = np.minimum(floor - power + 52 - form.mantissa, 62)
    kept = significand >> drop
    rest = significand - (kept << drop)
    half = np.int64(1) << (drop - 1)
    kept = kept + ((rest > half) | ((rest == half) & (kept % 2 == 1)))
    # The hidden bit of ``kept`` adds the one that separates normal exponent fields from zero; a carry does the rest.
    code = ((floor - (1 - form.bias)) << form.mantissa) + kept
    overflow = form.nan if form.infinity is None else form.infinity
    code = np.where((code > form.largest) | special, overflow, code)
    code = np.where(special & (fraction != 0), form.nan, code)
    return np.where(word < 0, code | form.sign, code)


def decode(codes: Any, form: Format) -> Array:
    """The float64 value of each code of ``form``; exact."""
    code = np.asarray(codes).astype(np.int64)
    size = code & (form.sign - 1)
    field = size >> form.mantissa
    fraction = size & ((1 << form.mantissa) - 1)
    significand = fraction + np.where(field > 0, 1 << form.mantissa, 0)
    value = np.ldexp(significand.astype(np.float64), np.maximum(field, 1) - form.bias - form.mantissa)
    value = np.where(size > form.largest, np.inf if form.infinity is not None else np.nan, value)
    if form.infinity is not None:
        value = np.where(size > form.infinity, np.nan, value)
    return np.where(code & form.sign != 0, -value, value)


def bits(array: Array) -> Array:
    """The storage of each element as an unsigned integer; a view if possible."""
    # ascontiguousarray alone would turn a scalar into a vector.
    return np.ascontiguousarray(array).reshape(array.shape).view(f"u{array.dtype.itemsize}")


def exact(array: Any) -> Array:
    """The value of every element as float64, whatever the storage type; exact."""
    array = np.asarray(array)
    name = array.dtype.name
    if name in INTEGERS or name in ("bool", "int64", "float64", "float32"):
        with np.errstate(invalid="ignore"):  # a signalling NaN
            return array.astype(np.float64)
    if name == "float8_e8m0fnu":  # its codes are powers of two, the last one NaN
        code = bits(array).astype(np.int64)
        return np.where(code == 255, np.nan, np.ldexp(1.0, code - 127))
    return decode(bits(array), FORMATS[name])


_SIZE: Final = (1 << 63) - 1
_DROPPED: Final = 52 - 23
_BELOW_HALF: Final = (1 << (_DROPPED - 1)) - 1
_NORMAL: Final = (1023 - 126) << 52  # the word of the smallest normal number of float32
_NORMALS: Final = np.uint64((127 + 126) << 52)  # so many words of float64 from there to 2.0 ** 127


def round32(values: Any) -> Array:
    """The nearest float32 number of each float64, still as float64.

    Between the smallest normal and the largest number, rounding adds half a unit of float32 to the bits of the float64,
    one bit less at an even number, and clears what lies below the unit: a carry does the rest. The others go through
    their codes, as :func:`write` would.
    """
    word = np.array(values, dtype=np.float64, order="C").view(np.int64)
    size = word & _SIZE
    rounded = ((word + ((word >> _DROPPED) & 1) + _BELOW_HALF) & -(1 << _DROPPED)).view(np.float64)
    others = (size - _NORMAL).view(np.uint64) >= _NORMALS  # zero is among them, and below the range wraps above it
    if others.any():
        numbers, form = word[others].view(np.float64), FORMATS["float32"]
        if rounded.ndim == 0:
            return decode(encode(numbers[0], form), form)
        rounded[others] = decode(encode(numbers, form), form)
    return rounded


def sum_to_odd(x: Array, y: Array) -> Array:
    """The sum in float64, rounded to the odd neighbour unless it is exact; :func:`round32` of it is the rounded sum.

    Rounding to nearest twice is not, where the first one makes a tie. The error of the sum is Knuth's.
    """
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)
    word = np.array(total, dtype=np.float64, order="C").view(np.int64)
    even = np.isfinite(total) & (error != 0) & (word & 1 == 0)
    away = (error > 0) == (total > 0)  # from zero, in which direction words count
    return np.where(even, word + np.where(away, 1, -1), word).view(np.float64)


_EXACT_IN_FLOAT32: Final = {*FORMATS, "bool", "int8", "int16", "uint8", "uint16"}


def read(array: Any) -> Array:
    """What an engine sees of an operand: every element converted to float32 (integers beyond 2**24 round)."""
    value = exact(array)
    return value if np.asarray(array).dtype.name in _EXACT_IN_FLOAT32 else round32(value)


def to_integer(values: Any, name: str) -> Array:
    """Nearest integer, ties to even, clamped to the range of the type; NaN gives 0."""
    low, high = INTEGERS[name]
    value = np.where(np.isnan(values), 0.0, np.clip(values, low, high))
    below = np.floor(value)
    excess = value - below
    up = (excess > 0.5) | ((excess == 0.5) & (below % 2 == 1))
    return (below + up).astype(np.int64).astype(name)


def write(values: Any, dtype: Any) -> Array:
    """What an engine stores: the float32 of each value, cast once to ``dtype`` (a NumPy dtype or ``"tfloat32"``)."""
    value = round32(values)
    if isinstance(dtype, str) and dtype == "tfloat32":
        return (encode(value, FORMATS["tfloat32"]) << 13).astype(np.uint32).view(np.float32)
    dtype = np.dtype(dtype)
    if dtype.name == "bool":
        return value != 0
    if dtype.name in INTEGERS:
        return to_integer(value, dtype.name)
    if dtype.name == "float8_e8m0fnu":
        # Open in the reference: the nearest power of two, the larger of two, none below 2 ** -127; else NaN.
        fraction, power = np.frexp(np.where(value > 0, value, 1.0))
        code = np.maximum(power + 126 + (fraction >= 0.75), 0)
        is_power = (value > 0) & (code < 255) & np.isfinite(value)  # the exponent of infinity is not its size
        return np.where(is_power, code, 255).astype(np.uint8).view(dtype)
    return encode(value, FORMATS[dtype.name]).astype(f"u{dtype.itemsize}").view(dtype)


def convert(array: Array, dtype: Any) -> Array:
    """A copy into ``dtype``: bit for bit when the type does not change, otherwise through float32."""
    dtype = np.dtype(dtype)
    return array.copy() if array.dtype == dtype else write(exact(array), dtype)


def spacing32(values: Any) -> Array:
    """Distance between float32 neighbours at each value (one ulp), at least the smallest subnormal."""
    size = np.minimum(np.abs(np.asarray(values, dtype=np.float64)), 2.0**127)
    _, power = np.frexp(np.where(np.isnan(size), 0.0, size))
    return np.ldexp(1.0, np.maximum(power - 24, -149))
