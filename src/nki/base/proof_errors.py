"""Errors of ``nki.prove``."""

from __future__ import annotations

from nki.base.errors import NkiError


class DifferentSignaturesError(NkiError):
    """Two sides of a proof that take other inputs, or return other outputs: their numbers, their shapes."""

    code = "NKI-PV001"


class UnknownOperatorError(NkiError):
    """A reference calls an operator of its framework that a proof has no rule for."""

    code = "NKI-PV002"

    @staticmethod
    def of(framework: str, operator: str) -> UnknownOperatorError:
        return UnknownOperatorError(
            f"a proof has no rule for {framework}'s {operator}",
            fix="write this part of the reference with other operators: sums, products, exp, maxima, where",
        )
