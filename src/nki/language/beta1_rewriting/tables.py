"""Facts for rewriting about the functions of NKI Beta 1: most follow from :mod:`nki.language.beta1_functions`."""

from __future__ import annotations

from typing import Final

from nki.language.beta1_functions import BINARY, FUNCTIONS, UNARY
from nki.language.beta1_functions import REDUCTIONS as REDUCTION_OPERATORS

PARAMETERS: Final = {name: row.positional for name, row in FUNCTIONS.items()}
"""The positional parameters of the instructions."""
LIKE: Final = {name: row.like for name, row in FUNCTIONS.items() if row.like}
"""Instructions with a result of the shape and dtype of an operand: of several that are joined, the first."""
TENSORS: Final = ("dst", "data", "data1", "src", "stationary", "data0", "src_buffer", "index")
"""Parameters that take tensors alone."""


def is_number(parameter: str, value: object) -> bool:
    """True for a number where a parameter takes a tensor; instructions on registers take numbers as ``src``."""
    return parameter not in ("dst", "src") and isinstance(value, int | float)


CREATION: Final = {"ndarray", "zeros", "ones", "full", "rand"}
CREATED_LIKE: Final = {"zeros_like", "empty_like"}
ELEMENTWISE: Final = frozenset({*UNARY, "copy", "softmax", "dropout", "rms_norm", "static_cast"})
REDUCTIONS: Final = frozenset({*REDUCTION_OPERATORS, "mean", "var"})
ALIKE: Final = {
    *(f"nki.language.{name}" for name in {"load", "store", *ELEMENTWISE, *BINARY} - {"softmax", "rms_norm"}),
    "nki.isa.dma_copy", "nki.isa.tensor_copy", "nki.isa.activation", "nki.isa.reciprocal",
}  # fmt: skip
"""Functions that make each element of the result from the elements in the same place."""

__all__ = [
    "ALIKE", "CREATED_LIKE", "CREATION", "ELEMENTWISE", "LIKE", "PARAMETERS", "REDUCTIONS",
    "TENSORS", "is_number",
]  # fmt: skip
