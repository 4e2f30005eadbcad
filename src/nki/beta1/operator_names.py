"""Operators as kernels name them in ``op=``: functions of ``nl``, functions of NumPy, and the compiler's own."""

from __future__ import annotations

from typing import Any, Final

from nki.base import element_types as dt
from nki.base.beta1_errors import Beta1OperandError
from nki.base.element_types import DType
from nki.isa.tables.operators import OPS, Op
from nki.language.beta1_functions import NUMPY_OPERATORS

_NAMES: Final = {**NUMPY_OPERATORS, "mul": "multiply", "sub": "subtract"}
"""Operators by the names of NumPy and of Python's module ``operator``, where they differ."""


def operator_of(value: Any, what: str, name: str = "op") -> Op:
    """The operator that ``value`` stands for. Raises :class:`Beta1OperandError` for another value."""
    if isinstance(value, Op):
        return value
    known = getattr(value, "operator", None)
    if isinstance(known, Op):
        return known
    word = value if isinstance(value, str) else getattr(value, "__name__", "")
    word = _NAMES.get(word, word)
    if word in OPS:
        return OPS[word]
    shown = word if word and not isinstance(value, str) else f"{value!r:.60}"
    raise Beta1OperandError(f"{what}: {name}={shown} is no operator", fix="pass a function such as nl.add or np.add")


def is_bits(op: Op) -> bool:
    """True if ``op`` works on the bits of integers."""
    return op.alu is not None and op.alu.bits


_OF_TRUTHS: Final = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor"})
"""Bit operators that make zeros and ones of zeros and ones."""


def bit_kind(op: Op, *sides: DType | float) -> DType:
    """The dtype of ``op`` on dtypes and numbers: bool of truths; else the widest, where bool counts as uint8."""
    kinds = [side for side in sides if isinstance(side, DType)]
    numbers = [side for side in sides if not isinstance(side, DType)]
    if op.name in _OF_TRUTHS and all(k is dt.bool_ for k in kinds) and all(n in (0, 1) for n in numbers):
        return dt.bool_
    return max((dt.uint8 if k is dt.bool_ else k for k in kinds), key=lambda kind: kind.itemsize)
