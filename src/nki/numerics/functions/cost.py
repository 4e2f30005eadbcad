"""The cost of a function or an operator: rules that weigh time against memory, or threads, ask for it.

Its unit is an operation on a vector of 16 float32 numbers; one on float64 counts twice, a division or a root eight
times. Counted is code for AVX-512, without what runs for few numbers only. On an EPYC 9005 a function in cache takes
0.16 ns for each number, and 0.004 to 0.008 ns more for each operation.
"""

from __future__ import annotations

from typing import Final

from nki.numerics.functions import FUNCTIONS

_OPERATORS: Final = {
    0: ("bypass",),
    1: ("add", "subtract", "multiply", "abs", "square", "invert", "bitwise_and", "bitwise_or", "bitwise_xor"),
    2: ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less", "logical_not"),
    4: ("abs_max", "abs_min", "logical_and", "logical_or", "logical_xor", "left_shift", "right_shift"),
    6: ("maximum", "minimum", "relu"),
    8: ("divide", "reciprocal"),
    36: ("rsqrt",),
    139: ("power",),
    1000: ("fmod",),
    1008: ("mod",),
}
"""ALU operators by their cost; a library computes the rest of a quotient, one number at a time."""

_OF_OPERATOR: Final = {name: cost for cost, names in _OPERATORS.items() for name in names}


def operations(kind: str, name: str) -> int:
    """The cost of a function (``kind`` "act") or an ALU operator ("alu")."""
    return FUNCTIONS[name].operations if kind == "act" else _OF_OPERATOR[name]
