"""The result of a comparison of scalars."""

from __future__ import annotations

from typing import NoReturn

from nki.base.errors import RegisterUseError


class ScalarComparison:
    """The result of a comparison of scalars: nothing takes it (NKI reference, nki.isa.NkiScalar)."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __bool__(self) -> NoReturn:
        raise RegisterUseError(
            f"`{self.text}` compares scalars and is used as a condition, which is decided when the kernel is compiled, "
            "before scalars have a value",
            fix="bound a loop with the scalar, nl.fori_loop(0, scalar, body); to choose between values, compute both "
            "and take one with nisa.tensor_copy_predicated",
        )


__all__ = ["ScalarComparison"]
