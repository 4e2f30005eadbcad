"""Sets of activation functions, where they are published.

The Scalar engine holds the table of one set at a time. The example of ``Activation.json`` in the Neuron Runtime
documentation (Work with NEFF files) lists the sets that a program uses: ``reciprocal_sqrt_and_small``,
``natural_log_exp_and_others``, ``reciprocal_and_small`` and ``gelu_and_others``. So exponentials and logarithms share a
set; reciprocals and reciprocal roots are each in a set of their own with small functions, and in none of the other
three, since the program would not need theirs then. The other functions are not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SETS: Final[Mapping[str, str]] = {
    "exp": "log and exp",
    "log": "log and exp",
    "rsqrt": "rsqrt",
    "reciprocal": "reciprocal",
    "gelu": "gelu",
}
"""The set of each function that one is named after."""
_SMALL: Final = ("rsqrt", "reciprocal")


def differ(first: str, second: str) -> bool:
    """Test if functions of two of the sets are known to have no set in common."""
    named = first in SETS.values() and second in SETS.values()
    return named and first != second and (first in _SMALL or second in _SMALL)
