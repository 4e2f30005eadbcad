"""The ALU operator table: what the Vector, GpSimd and Scalar engines apply to elements.

Source of the rows: NKI reference, "Supported Math Operators for NKI ISA", and the operators' entries in nki.language.
Arithmetic rows work on float32 (operands are converted, results converted once on write); bit rows work on the stored
bits of equally wide integers. Comparisons and logical rows give 1.0 or 0.0, and take any non-zero, NaN included, for
true. The exact meaning of each primitive, which both executors implement bit for bit, is in ``meaning``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AluRow:
    """One operator.

    ``identity`` changes nothing that it is folded with (None: there is none); add's is -0, since -0 + x is x for a zero
    of either sign. ``is_truth``: results are 1.0 and 0.0. ``reduces`` says that reductions take the operator. ``since``
    is the first generation that has it. ``nan`` says what a NaN operand does.
    """

    name: str
    arity: int
    bits: bool
    meaning: str
    nan: str
    identity: float | None = None
    reduces: bool = False
    since: int = 2
    is_truth: bool = False


_PROPAGATES, _COMPARES = "gives NaN", "compares false"


def _f(name: str, arity: int, meaning: str, nan: str = _PROPAGATES, **more: Any) -> AluRow:
    return AluRow(name, arity, False, meaning, nan, **more)


def _truth(name: str, arity: int, meaning: str, nan: str, **more: Any) -> AluRow:
    return _f(name, arity, meaning, nan, is_truth=True, **more)


def _b(name: str, arity: int, meaning: str, **more: Any) -> AluRow:
    return AluRow(name, arity, True, meaning, "no NaN: bits", **more)


TABLE: Final = {
    row.name: row
    for row in (
        _f("bypass", 1, "x", "kept"),
        _f("add", 2, "x + y", identity=-0.0, reduces=True),
        _f("subtract", 2, "x - y", reduces=True),
        _f("multiply", 2, "x * y", identity=1.0, reduces=True),
        _f("divide", 2, "x / y, IEEE"),
        _f("maximum", 2, "IEEE 754-2019 maximum; -0 < +0", identity=float("-inf"), reduces=True),
        _f("minimum", 2, "IEEE 754-2019 minimum; -0 < +0", identity=float("inf"), reduces=True),
        _f("abs_max", 2, "x if |x| > |y| else y", "a NaN makes the comparison false: y", since=4),
        _f("abs_min", 2, "x if |x| < |y| else y", "a NaN makes the comparison false: y", since=4),
        _f("power", 2, "x to the y; compiled primitive shared by all executors"),
        _f("fmod", 2, "x - y * trunc(x / y), exact; sign of x"),
        _f("mod", 2, "fmod(x, y), plus y where that has the other sign than y; 0 with the sign of y"),
        _truth("equal", 2, "1.0 if x == y else 0.0", _COMPARES),
        _truth("not_equal", 2, "1.0 if x != y else 0.0", "is unequal"),
        _truth("greater_equal", 2, "1.0 if x >= y else 0.0", _COMPARES),
        _truth("greater", 2, "1.0 if x > y else 0.0", _COMPARES),
        _truth("less_equal", 2, "1.0 if x <= y else 0.0", _COMPARES),
        _truth("less", 2, "1.0 if x < y else 0.0", _COMPARES),
        _truth("logical_and", 2, "1.0 if both are not zero", "counts as true", identity=1.0, reduces=True),
        _truth("logical_or", 2, "1.0 if one is not zero", "counts as true", identity=0.0, reduces=True),
        _truth("logical_xor", 2, "1.0 if exactly one is not zero", "counts as true", identity=0.0, reduces=True),
        _truth("logical_not", 1, "1.0 if x is zero", "counts as true"),
        _f("abs", 1, "x without its sign", "kept"),
        _f("square", 1, "x * x", since=4),
        _f("relu", 1, "maximum(x, +0)", since=4),
        _f("rsqrt", 1, "float32(1 / sqrt(float64(x)))"),
        _f("reciprocal", 1, "1 / x, IEEE"),
        _b("invert", 1, "all bits flipped"),
        _b("bitwise_and", 2, "x & y", identity=-1, reduces=True),
        _b("bitwise_or", 2, "x | y", identity=0, reduces=True),
        _b("bitwise_xor", 2, "x ^ y", identity=0, reduces=True),
        _b("left_shift", 2, "bits of x moved left by y, zeros enter; 0 for y outside 0 … width - 1"),
        _b("right_shift", 2, "bits of x moved right by y, zeros enter; 0 for y outside 0 … width - 1"),
    )
}
"""All operators by name."""

BITS: Final = frozenset(row.name for row in TABLE.values() if row.bits)
"""The operators that work on stored bits."""

TRUTHS: Final = frozenset(row.name for row in TABLE.values() if row.is_truth)
"""The operators with the results 1.0 and 0.0."""
