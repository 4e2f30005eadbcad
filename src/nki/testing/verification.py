"""The outcome of ``nki.testing.verify``: checks, a verdict, a score."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Self

from nki.base.gate_errors import VerificationError
from nki.base.version import version
from nki.ir.text import artifact
from nki.testing.record import VerificationRecord

SCHEMA: Final = "open-nki/1"
PARTLY: Final = 0.5
"""The most that a kernel gets which is not right everywhere, and does not cheat."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. ``passed`` is None if it could not be, and ``measured`` says why."""

    name: str
    passed: bool | None
    measured: str
    is_result: bool = False
    """It compares results with the reference's; any other check is about the kernel's honesty."""
    part: float = 1.0
    """The part of the draws that passed, of 1."""

    def __str__(self) -> str:
        word = {True: "ok  ", False: "FAIL", None: "--  "}[self.passed]
        return f"{word} {self.name}: {self.measured}"


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of :func:`nki.testing.verify`."""

    kernel: str
    target: str
    seed: int
    """Pass it as ``seed=`` to have the same sizes and numbers again."""
    checks: tuple[Check, ...]
    shapes: tuple[str, ...]
    """The tensor arguments of each shape that was verified."""
    tolerance: str
    """The derivation of the tolerance, in words."""
    artifacts: tuple[bytes, ...] = field(repr=False)
    """The verified programs, as ``.klir`` files: ``nki run`` and ``nki profile`` then time what was verified."""

    @property
    def passed(self) -> bool:
        """True if no check failed, and results were compared."""
        return all(each.passed is not False for each in self.checks) and any(
            each.is_result and each.passed for each in self.checks
        )

    @property
    def score(self) -> float:
        """1 if all passed; 0 if a check of honesty failed; else half of the part of the draws that are right."""
        if self.passed:
            return 1.0
        results = [each.part for each in self.checks if each.is_result and each.passed is not None]
        if not results or any(each.passed is False and not each.is_result for each in self.checks):
            return 0.0
        return PARTLY * sum(results) / len(results)

    @property
    def programs(self) -> tuple[str, ...]:
        """The SHA-256 of the text of each program."""
        return tuple(map(artifact.digest, self.artifacts))

    @property
    def failed(self) -> list[Check]:
        """The checks that failed."""
        return [each for each in self.checks if each.passed is False]

    def json(self) -> dict[str, Any]:
        """All of it as a document for ``json.dumps``."""
        return {"schema": SCHEMA, "version": version(), **self.record()}

    def record(self) -> VerificationRecord:
        """All of it as JSON values."""
        return {
            "kernel": self.kernel,
            "target": self.target,
            "passed": self.passed,
            "score": self.score,
            "seed": self.seed,
            "shapes": list(self.shapes),
            "programs": list(self.programs),
            "tolerance": self.tolerance,
            "checks": [
                {"name": each.name, "passed": each.passed, "measured": each.measured, "part": each.part}
                for each in self.checks
            ],
        }

    def __str__(self) -> str:
        verdict = "passed" if self.passed else f"FAILED ({len(self.failed)} of {len(self.checks)} checks)"
        lines = [f"{self.kernel} on {self.target}: {verdict}, score {self.score:.2f}, seed {self.seed}"]
        lines += [f"  {each}" for each in self.checks]
        return "\n".join([*lines, f"  tolerance: {self.tolerance}", f"  shapes: {'; '.join(self.shapes)}"])

    def check(self) -> Self:
        """Itself. Raises :class:`VerificationError`, with all that failed, unless the kernel passed."""
        if not self.passed:
            failed = "\n".join(f"  {each}" for each in self.failed) or "  nothing was compared"
            raise VerificationError(
                f"kernel {self.kernel!r} does not pass:\n{failed}",
                fix=f"verify(..., seed={self.seed}) repeats this; print its result for all checks",
            )
        return self


@dataclass(slots=True)
class Findings:
    """Checks as they come in: the ones with the same name become one, which fails if any does."""

    _found: dict[str, list[Check]] = field(default_factory=dict[str, list[Check]])

    def add(self, name: str, passed: bool | None, measured: str, *, is_result: bool = False) -> None:
        """Note what one draw, or one shape, shows."""
        self._found.setdefault(name, []).append(Check(name, passed, measured, is_result))

    @property
    def failed(self) -> bool:
        """True if a check has failed."""
        return any(each.passed is False for found in self._found.values() for each in found)

    def checks(self) -> tuple[Check, ...]:
        """One check for each name, in the order in which they came first."""
        return tuple(_joined(each) for each in self._found.values())


def _joined(found: list[Check]) -> Check:
    bad = [each for each in found if each.passed is False]
    done = [each for each in found if each.passed is not None]
    shown = (bad or done or found)[-1]
    several = f" ({len(bad)} of {len(done)} draws)" if bad and len(done) > 1 else ""
    part = 1 - len(bad) / len(done) if done else 1.0
    return Check(shown.name, shown.passed, shown.measured + several, shown.is_result, part)
