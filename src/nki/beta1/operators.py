"""Operators as kernels name them in ``op=``: functions of ``nl``, functions of NumPy, and the compiler's own."""

from __future__ import annotations

from typing import Any, Final

from nki.base.beta1_errors import Beta1OperandError
from nki.isa.tables.operators import OPS, Op

_NUMPY: Final = {
    "absolute": "abs", "fabs": "abs", "amax": "maximum", "max": "maximum", "fmax": "maximum", "amin": "minimum",
    "min": "minimum", "fmin": "minimum", "sum": "add", "prod": "multiply", "true_divide": "divide", "remainder": "mod",
    "bitwise_not": "invert", "mul": "multiply", "sub": "subtract", "all": "logical_and", "any": "logical_or",
}  # fmt: skip
"""NumPy's names, also those of reductions, by the name of the operator."""


def operator_of(value: Any, what: str, name: str = "op") -> Op:
    """The operator that ``value`` stands for. Raises :class:`Beta1OperandError` for another value."""
    if isinstance(value, Op):
        return value
    known = getattr(value, "operator", None)
    if isinstance(known, Op):
        return known
    word = value if isinstance(value, str) else getattr(value, "__name__", "")
    word = _NUMPY.get(word, word)
    if word in OPS:
        return OPS[word]
    shown = word if word and not isinstance(value, str) else f"{value!r:.60}"
    raise Beta1OperandError(f"{what}: {name}={shown} is no operator", fix="pass a function such as nl.add or np.add")
