"""The outcome of a verification as JSON values."""

from __future__ import annotations

from typing import Annotated, TypedDict


class CheckRecord(TypedDict):
    """One thing that was looked at."""

    name: Annotated[str, "its name"]
    passed: Annotated[bool | None, "null if it could not be looked at"]
    measured: Annotated[str, "what was found, in words"]
    part: Annotated[float, "the part of the draws that passed, of 1"]


class VerificationRecord(TypedDict):
    """The outcome of a verification."""

    kernel: Annotated[str, "its name"]
    target: Annotated[str, "`trn1`, `trn2` or `trn3`; `no target` if it does not compile"]
    passed: Annotated[bool, "true if no check failed, and results were compared"]
    score: Annotated[float, "a reward from 0 to 1"]
    seed: Annotated[int, "the seed that repeats it"]
    shapes: Annotated[list[str], "the tensor arguments of each shape"]
    programs: Annotated[list[str], "the SHA-256 of the text of each program"]
    tolerance: Annotated[str, "the derivation of the tolerance, in words"]
    checks: Annotated[list[CheckRecord], "all checks"]
