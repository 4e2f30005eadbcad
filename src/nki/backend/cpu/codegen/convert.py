"""Between stored elements and float32 values, as LLVM IR.

Every function takes scalars and vectors alike and emits code without calls, which is straight but for a branch of
:func:`encode_mostly_normal`. Rounding, saturation and special values are as in :mod:`nki.base.dtype_conversion`, bit
for bit, with one freedom: the float32 value that a NaN is decoded to may be any NaN, since it is never written as it
is.

float16 uses the ``half`` type; on an x86 processor without F16C, for which LLVM would call a library that nobody has,
it is converted with integers like the smaller floats.
bfloat16 is rounded with integers, because the processors' own instruction flushes subnormals to zero; normal numbers it
rounds to nearest even, whatever the rounding mode (Intel 64 and IA-32 Architectures Software Developer's Manual, volume
2, VCVTNE2PS2BF16).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.base.errors import DTypeError
from nki.numerics.llvm import (
    AVX512,
    BF16,
    F32,
    I8,
    I16,
    I32,
    NAN,
    SUBNORMAL,
    Builder,
    Value,
    call,
    canonical_nan,
    constant,
    either,
    has_avx512,
    in_classes,
    intrinsic,
    lanes_of,
    like,
)
from nki.numerics.llvm_jit import engine

F16: Final = ir.HalfType()


_MANTISSA: Final = 23  # float32: explicit mantissa bits
_BIAS: Final = 127
_ABS: Final = 0x7FFFFFFF
_INFINITY: Final = 0x7F800000
_QUIET: Final = 0x00400000
_NAN: Final = _INFINITY | _QUIET


@dataclass(frozen=True, slots=True)
class _Small:
    """A float of at most 16 bits: exponent bias, mantissa bits, the codes (without sign) of what overflows and of NaN.

    Codes from ``special`` on are not ordinary numbers. Source: OCP 8-bit Floating Point Specification (e4m3fn, e5m2),
    OCP Microscaling Formats Specification (e2m1), and IEEE 754's scheme with four exponent bits (e4m3).
    """

    bias: int
    mantissa: int
    special: int
    overflow: int
    nan: int
    width: int = 8

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    @property
    def sign_of_code(self) -> int:
        """The sign bit of an encoded number, which shorter ones have where a byte has it."""
        return 1 << (max(self.width, 8) - 1)


_SMALL: Final = {
    dt.float8_e4m3: _Small(bias=7, mantissa=3, special=0x78, overflow=0x78, nan=0x7C),
    dt.float8_e4m3fn: _Small(bias=7, mantissa=3, special=0x7F, overflow=0x7F, nan=0x7F),
    dt.float8_e5m2: _Small(bias=15, mantissa=2, special=0x7C, overflow=0x7C, nan=0x7E),
}
_HALF: Final = _Small(bias=15, mantissa=10, special=0x7C00, overflow=0x7C00, nan=0x7E00, width=16)
_PARTS: Final = {
    dt.float8_e4m3fn_x4: _SMALL[dt.float8_e4m3fn],
    dt.float8_e5m2_x4: _SMALL[dt.float8_e5m2],
    dt.float4_e2m1fn_x4: _Small(bias=1, mantissa=1, special=8, overflow=7, nan=8, width=4),
}
"""Element type of the four numbers of a packed element."""

_STORAGE: Final = {
    dt.bool_: I8,
    dt.float32: F32,
    dt.float16: F16,
    dt.bfloat16: I16,
    dt.tfloat32: F32,
    dt.float8_e8m0fnu: I8,
    **dict.fromkeys(_SMALL, I8),
    **{whole: ir.IntType(8 * whole.itemsize) for whole in dt.ALL if whole.is_integer or whole.is_packed},
}


def storage_type(dtype: DType, lanes: int) -> ir.Type:
    """The LLVM type that holds ``lanes`` stored elements: a scalar type for one lane, else a vector."""
    return _STORAGE[dtype] if lanes == 1 else ir.VectorType(_STORAGE[dtype], lanes)


def decode(b: Builder, raw: Value, dtype: DType) -> Value:
    """The float32 value(s) of ``raw``, which has a :func:`storage_type` of ``dtype``."""
    if dtype is dt.float32 or dtype is dt.tfloat32:
        return raw
    value = like(raw, F32)
    if dtype is dt.bool_:
        return b.uitofp(b.icmp_unsigned("!=", raw, constant(raw.type, 0)), value)
    if dtype.is_integer:
        return (b.sitofp if dtype.kind == "i" else b.uitofp)(raw, value)
    if dtype is dt.float16:
        if not engine().has_half:
            return _decode_small(b, b.bitcast(raw, like(raw, I16)), _HALF)
        return b.fpext(raw, value)
    if dtype is dt.bfloat16:
        word = b.zext(raw, like(raw, I32))
        return b.bitcast(b.shl(word, constant(word.type, 16)), value)
    if dtype in _SMALL:
        return _decode_small(b, raw, _SMALL[dtype])
    if dtype is dt.float8_e8m0fnu:
        return _decode_power(b, raw)
    raise DTypeError(f"{dtype} has no native conversion: its elements are four numbers each")


def decode_part(b: Builder, raw: Value, dtype: DType, index: int) -> Value:
    """The float32 value(s) of number ``index``, counted from the lowest bits, of packed elements."""
    small = _PARTS[dtype]
    return _decode_small(b, b.lshr(raw, constant(raw.type, index * small.width)), small)


def encode(b: Builder, value: Value, dtype: DType, has_canonical_nan: bool = False) -> Value:
    """``value``, float32, rounded to ``dtype``; the result has a :func:`storage_type` of ``dtype``.

    A NaN becomes the canonical one; only of float32, to which all of an expression is converted, does the NaN of a
    result become so when it is written. ``has_canonical_nan``: no other NaN occurs in ``value``.
    """
    if dtype is dt.float32:
        return value
    if dtype is dt.bool_:
        return b.zext(b.fcmp_unordered("!=", value, constant(value.type, 0.0)), like(value, I8))
    if dtype.is_integer:
        return _encode_integer(b, value, dtype)
    if dtype is dt.float16:
        if not engine().has_half:
            return b.bitcast(_encode_small(b, value, _HALF), like(value, F16))
        return b.fptrunc(canonical_nan(b, value), like(value, F16))
    if dtype is dt.bfloat16:
        return upper_halves(b, _rounded(b, value if has_canonical_nan else canonical_nan(b, value), 16))
    if dtype is dt.tfloat32:
        bits = _rounded(b, canonical_nan(b, value), 13)
        return b.bitcast(b.and_(bits, constant(bits.type, 0xFFFFE000)), value.type)
    if dtype in _SMALL:
        return _encode_small(b, value, _SMALL[dtype])
    if dtype is dt.float8_e8m0fnu:
        return _encode_power(b, value)
    raise DTypeError(f"{dtype} has no native conversion: its elements are four numbers each")


def encode_unseen(b: Builder, value: Value) -> Value:
    """``value``, float32, rounded to bfloat16 for further arithmetic: any NaN stands for any other one.

    The low half of each NaN in ``value`` is 0, as of those that come from bfloat16: rounding leaves it a NaN.
    """
    return upper_halves(b, _rounded(b, value, 16))


def encode_parts(b: Builder, values: Sequence[Value], dtype: DType) -> Value:
    """Packed elements of the float32 ``values``, each rounded to the 8-bit float of ``dtype``; lowest bits first."""
    small = _PARTS[dtype]
    total: Value = None
    for index, value in enumerate(values):
        code = b.zext(_encode_small(b, value, small), like(value, I32))
        placed = b.shl(code, constant(code.type, index * small.width))
        total = placed if total is None else b.or_(total, placed)
    return total


def encode_normal(b: Builder, low: Value, high: Value, dtype: DType) -> Value:
    """:func:`encode` of two vectors side by side, of normal numbers and zeros that do not become infinite."""
    both = lanes_of(b, low, high, 0, 2 * low.type.count)
    if dtype is not dt.bfloat16 or not _rounds_pairs(both):
        return encode(b, both, dtype, has_canonical_nan=True)
    return _rounded_pair(b, low, high)


def _rounds_pairs(value: Value) -> bool:
    """True of two vectors side by side that the processor rounds to bfloat16 in one instruction."""
    return isinstance(value.type, ir.VectorType) and value.type.count == 2 * AVX512 and engine().has_bfloat16


def encode_mostly_normal(b: Builder, value: Value, dtype: DType) -> Value:
    """:func:`encode` with a branch for two vectors side by side: the processor rounds them to bfloat16 if it may.

    It may if none of the numbers is NaN or subnormal.
    """
    if dtype is not dt.bfloat16 or not _rounds_pairs(value):
        return encode(b, value, dtype)
    low, high = (lanes_of(b, value, value, first, AVX512) for first in (0, AVX512))
    special = b.bitcast(b.or_(*(in_classes(b, vector, NAN | SUBNORMAL) for vector in (low, high))), I16)
    is_usual = b.icmp_unsigned("==", special, ir.Constant(I16, 0))
    return either(b, is_usual, lambda: _rounded_pair(b, low, high), lambda: encode(b, value, dtype))


def _rounded_pair(b: Builder, low: Value, high: Value) -> Value:
    """Two vectors of normal numbers, zeros and infinities, rounded to bfloat16, side by side."""
    pair = ir.VectorType(BF16, 2 * AVX512)
    both = call(b, "llvm.x86.avx512bf16.cvtne2ps2bf16.512", pair, [high, low])
    return b.bitcast(both, ir.VectorType(I16, 2 * AVX512))


def _encode_integer(b: Builder, value: Value, dtype: DType) -> Value:
    """Clamp as float32, then convert. LLVM's saturating conversion would do, but splits vectors into scalars on x86."""
    bits, signed = 8 * dtype.itemsize, dtype.kind == "i"
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    # The largest whole float32 that fits: beyond 24 bits the bound itself is not one.
    top = high if bits < 32 else high + 1 - (1 << (bits - 24 - signed))
    number = b.select(
        b.fcmp_ordered("ord", value, value), intrinsic(b, "rint", value.type, [value]), constant(value.type, 0.0)
    )
    for relation, bound in (("<", low), (">", top)):
        limit = constant(value.type, float(bound))
        number = b.select(b.fcmp_ordered(relation, number, limit), limit, number)
    # Processors convert to nothing smaller than 32 bits.
    whole = (b.fptosi if signed or bits < 32 else b.fptoui)(number, like(value, I32))
    if bits < 32:
        return b.trunc(whole, like(value, ir.IntType(bits)))
    over = b.fcmp_ordered(">", value, constant(value.type, float(top)))
    return b.select(over, constant(whole.type, high), whole)


def _rounded(b: Builder, value: Value, drop: int) -> Value:
    """The bits of ``value`` rounded to nearest even at bit ``drop``; those below are left as rubbish.

    The canonical NaN stays what it is, others need not stay NaN.
    """
    bits = b.bitcast(value, like(value, I32))
    kind = bits.type
    if has_avx512() and isinstance(kind, ir.VectorType) and kind.count == 2 * AVX512:
        # One operation less; in loops of single vectors, exponentials with their sums took 1.2 of the time with it.
        is_odd = b.icmp_unsigned("!=", b.and_(bits, constant(kind, 1 << drop)), constant(kind, 0))
        half = 1 << (drop - 1)
        return b.select(is_odd, b.add(bits, constant(kind, half)), b.add(bits, constant(kind, half - 1)))
    return _nearest_even(b, bits, drop)


def _nearest_even(b: Builder, bits: Value, drop: int) -> Value:
    odd = b.and_(b.lshr(bits, constant(bits.type, drop)), constant(bits.type, 1))
    return b.add(b.add(bits, constant(bits.type, (1 << (drop - 1)) - 1)), odd)


def upper_halves(b: Builder, words: Value) -> Value:
    """The upper 16 bits of each of ``words``: one vector of them is truncated, two are packed by one shuffle."""
    count = words.type.count if isinstance(words.type, ir.VectorType) else 1
    if count <= engine().vector_width:
        return b.trunc(b.lshr(words, constant(words.type, 16)), like(words, I16))
    halves = b.bitcast(words, ir.VectorType(I16, 2 * count))
    upper = ir.Constant(ir.VectorType(I32, count), list(range(1, 2 * count, 2)))
    return b.shuffle_vector(halves, halves, upper)


def _decode_small(b: Builder, raw: Value, small: _Small) -> Value:
    """``raw``: integers with the code in their lowest bits."""
    word = raw if raw.type == like(raw, I32) else b.zext(raw, like(raw, I32))
    kind, value = word.type, like(raw, F32)
    code = b.and_(word, constant(kind, small.sign - 1))
    sign = b.shl(b.and_(word, constant(kind, small.sign)), constant(kind, 32 - small.width))
    shifted = b.shl(code, constant(kind, _MANTISSA - small.mantissa))
    normal = b.add(shifted, constant(kind, (_BIAS - small.bias) << _MANTISSA))
    # A subnormal has no hidden one: give it the exponent of the least normal number and subtract the one again. Unlike
    # a scaled float32 subnormal, this is at full speed on every processor.
    least = (_BIAS - small.bias + 1) << _MANTISSA
    one = b.bitcast(constant(kind, least), value)
    subnormal = b.fsub(b.bitcast(b.add(shifted, constant(kind, least)), value), one)
    is_normal = b.icmp_unsigned(">=", code, constant(kind, 1 << small.mantissa))
    number = b.select(is_normal, normal, b.bitcast(subnormal, kind))
    special = constant(kind, _NAN)
    if small.special != small.nan:
        is_infinity = b.icmp_unsigned("==", code, constant(kind, small.special))
        special = b.select(is_infinity, constant(kind, _INFINITY), special)
    number = b.select(b.icmp_unsigned(">=", code, constant(kind, small.special)), special, number)
    return b.bitcast(b.or_(number, sign), value)


def _encode_small(b: Builder, value: Value, small: _Small) -> Value:
    bits = b.bitcast(value, like(value, I32))
    kind = bits.type
    magnitude = b.and_(bits, constant(kind, _ABS))
    sign_bit = small.sign_of_code
    sign = b.and_(b.lshr(bits, constant(kind, 32 - sign_bit.bit_length())), constant(kind, sign_bit))
    drop = _MANTISSA - small.mantissa
    # Normal results: round the bits where the mantissa ends, then move the exponent's bias. A carry out of the mantissa
    # raises the exponent, as it must.
    rounded = b.lshr(_nearest_even(b, magnitude, drop), constant(kind, drop))
    normal = b.sub(rounded, constant(kind, (_BIAS - small.bias) << small.mantissa))
    # Subnormal results: add the number with the least subnormal as its last mantissa bit, and the adder rounds.
    magic = constant(kind, (_BIAS + drop + 1 - small.bias) << _MANTISSA)
    total = b.fadd(b.bitcast(magnitude, value.type), b.bitcast(magic, value.type))
    subnormal = b.sub(b.bitcast(total, kind), magic)
    least_normal = constant(kind, (_BIAS + 1 - small.bias) << _MANTISSA)
    code = b.select(b.icmp_unsigned(">=", magnitude, least_normal), normal, subnormal)
    overflow = constant(kind, small.overflow)
    code = b.select(b.icmp_unsigned(">", code, overflow), overflow, code)
    is_nan = b.icmp_unsigned(">", magnitude, constant(kind, _INFINITY))
    if small.overflow == small.nan:  # as all that overflows, NaN or not
        is_nan = b.icmp_unsigned("==", code, overflow)
    code = b.select(is_nan, constant(kind, small.nan), b.or_(code, sign))
    return b.trunc(code, like(value, I16 if small.width > 8 else I8))


def _decode_power(b: Builder, raw: Value) -> Value:
    """A code is the exponent field of a float32: 0 is the subnormal below the smallest, 255 is NaN and not infinity."""
    field = b.shl(b.zext(raw, like(raw, I32)), constant(like(raw, I32), _MANTISSA))
    kind = field.type
    least, top = constant(kind, 1 << (_MANTISSA - 1)), constant(kind, _INFINITY)
    number = b.select(b.icmp_unsigned("==", field, constant(kind, 0)), least, field)
    number = b.select(b.icmp_unsigned("==", field, top), constant(kind, _NAN), number)
    return b.bitcast(number, like(raw, F32))


def _encode_power(b: Builder, value: Value) -> Value:
    bits = b.bitcast(value, like(value, I32))
    kind = bits.type
    # The least power, 2**-127 of code 0, is subnormal: half of its distance to the next is a quarter of the mantissa's
    # range. There is no zero.
    is_subnormal = b.icmp_unsigned("<", bits, constant(kind, 1 << _MANTISSA))
    half = b.select(is_subnormal, constant(kind, 1 << (_MANTISSA - 2)), constant(kind, 1 << (_MANTISSA - 1)))
    code = b.lshr(b.add(bits, half), constant(kind, _MANTISSA))
    outside = b.or_(b.icmp_signed("<=", bits, constant(kind, 0)), b.icmp_unsigned(">", bits, constant(kind, _INFINITY)))
    return b.trunc(b.select(outside, constant(kind, 0xFF), code), like(value, I8))
