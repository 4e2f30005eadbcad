"""``NkiScalar``: a whole number of the device with which Python computes, by recording the arithmetic (NKI 0.7)."""

from __future__ import annotations

import operator
from typing import Any, Final, NoReturn

from nki.base.element_types import DType, int32, int64
from nki.base.errors import RegisterUseError
from nki.base.source import here
from nki.ir.loop import VirtualRegister
from nki.ir.recorder import current
from nki.ir.scalars.comparison import ScalarComparison
from nki.ir.types import Access, access_of

WIDTHS: Final = (int32, int64)
EXACT: Final = {int32: range(-(1 << 31), 1 << 31), int64: range(-(1 << 53), (1 << 53) + 1)}
"""The numbers that an instruction takes beside a scalar of each dtype."""
_LOW: Final = 1 << 32


class NkiScalar(VirtualRegister):
    """One int32 or int64 number that exists only when the kernel runs; ``dtype`` says which.

    ``nisa.scalar_load`` makes one, and ``nl.fori_loop`` hands one to its body. ``+``, ``-`` and ``*`` with whole
    numbers and scalars of the same dtype record an instruction; the result is a new scalar and wraps at the width.
    Views take scalars as run-time indices (int64 in HBM only), and loops take int32 scalars as bounds. A scalar never
    changes. It has no value while the kernel is compiled, so Python cannot branch on it, and nothing takes the result
    of a comparison.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return super().__repr__().replace("VirtualRegister", "NkiScalar", 1)

    def __add__(self, other: Any) -> NkiScalar:
        return _computed("+", "add", self, other)

    def __radd__(self, other: Any) -> NkiScalar:
        return _computed("+", "add", other, self)

    def __sub__(self, other: Any) -> NkiScalar:
        return _computed("-", "subtract", self, other)

    def __rsub__(self, other: Any) -> NkiScalar:
        return _computed("-", "subtract", other, self)

    def __mul__(self, other: Any) -> NkiScalar:
        return _computed("*", "multiply", self, other)

    def __rmul__(self, other: Any) -> NkiScalar:
        return _computed("*", "multiply", other, self)

    __iadd__, __isub__, __imul__ = __add__, __sub__, __mul__

    def __neg__(self) -> NkiScalar:
        return _computed("-", "subtract", 0, self)

    def __eq__(self, other: object) -> Any:
        """With numbers and scalars a comparison, which nothing takes; kernels also ask ``scalar == None``."""
        return False if other is None else _compared("==", self, other)

    def __ne__(self, other: object) -> Any:
        return True if other is None else _compared("!=", self, other)

    def __lt__(self, other: Any) -> ScalarComparison:
        return _compared("<", self, other)

    def __le__(self, other: Any) -> ScalarComparison:
        return _compared("<=", self, other)

    def __gt__(self, other: Any) -> ScalarComparison:
        return _compared(">", self, other)

    def __ge__(self, other: Any) -> ScalarComparison:
        return _compared(">=", self, other)

    __hash__ = VirtualRegister.__hash__

    def _refuse(self, sign: str) -> NoReturn:
        raise RegisterUseError(
            f"Python's {sign} on scalar '{self.name}'; scalars have +, - and *",
            fix="compute in a (1, 1) tile: nisa.scalar_store, nisa.tensor_scalar, nisa.scalar_load",
        )


def _computed(sign: str, op: str, left: Any, right: Any) -> NkiScalar:
    """``left op right``, recorded; one of the two is a scalar."""
    scalar: NkiScalar = left if isinstance(left, NkiScalar) else right
    return _emitted(op, _side(sign, scalar, left), _side(sign, scalar, right), scalar.dtype)


def _emitted(op: str, left: int | Access, right: int | Access, dtype: DType) -> NkiScalar:
    recorder = current("the arithmetic of scalars")
    result = recorder.register("scalar", here(), kind=NkiScalar, dtype=dtype)
    recorder.compute(op, result, left, right)
    return result


def _side(sign: str, scalar: NkiScalar, side: Any) -> int | Access:
    """An operand of arithmetic with ``scalar``, checked; a number that no instruction takes as a scalar of its own."""
    if isinstance(side, NkiScalar):
        if side.dtype is not scalar.dtype:
            raise RegisterUseError(
                f"Python's {sign} on scalars '{scalar.name}' of {scalar.dtype} and '{side.name}' of {side.dtype}",
                fix="load both from tensors of one dtype: a scalar is never widened",
            )
        return side
    try:
        number = None if isinstance(side, bool | Access) else operator.index(side)
    except TypeError:
        number = None
    if number is None:
        access = access_of(side)
        shown = f"'{access.name}'" if isinstance(access, Access) else f"{side!r:.40}"
        raise RegisterUseError(
            f"Python's {sign} on scalar '{scalar.name}' and {shown} ({type(side).__name__})",
            fix="compute with whole numbers and scalars; nisa.scalar_load(tile) makes a scalar of an element",
        )
    high = 1 << (8 * scalar.dtype.itemsize - 1)
    if not -high <= number < high:
        raise RegisterUseError(
            f"Python's {sign} on scalar '{scalar.name}' of {scalar.dtype} and {number}, which does not fit into it",
            fix=f"use a number from -2**{high.bit_length() - 1} to 2**{high.bit_length() - 1} - 1",
        )
    return number if number in EXACT[scalar.dtype] else _large(scalar, number)


def _large(scalar: NkiScalar, number: int) -> NkiScalar:
    """``number``, which has more than 53 bits, put together from its two halves."""
    kind = scalar.dtype
    high, low = divmod(number, _LOW)
    upper = _emitted("add", _emitted("multiply", scalar, 0, kind), high, kind)
    return _emitted("add", _emitted("multiply", upper, _LOW, kind), low, kind)


def _compared(sign: str, left: NkiScalar, right: Any) -> ScalarComparison:
    side = _side(sign, left, right)
    text = f"{left.name} {sign} {side.name if isinstance(side, Access) else side}"
    if left.dtype is int64:
        raise RegisterUseError(
            f"`{text}` compares scalars of int64, which have no comparison",
            fix="compare in (1, 1) tiles of 32 bits, with nisa.tensor_tensor and op=nl.less",
        )
    return ScalarComparison(text)


__all__ = ["EXACT", "WIDTHS", "NkiScalar"]
