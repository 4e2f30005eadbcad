"""What ``nki.optimise`` returns: the edits that were tried, the ones that stay, and the new text."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from nki.base.profile_errors import ProfileFileError
from nki.optimising.version import Gain
from nki.profiling.advice import Advice
from nki.profiling.kernel_profile import Profile

Result = Literal["kept", "refused", "no faster", "another result"]


@dataclass(frozen=True)
class Attempt:
    """An edit that was tried: what it does, at which ``line`` of the text at that time, its ``gain`` over that text
    (None if it did not compile), the ``error`` of the results if it stays, and the ``reason`` if it does not.
    """

    title: str
    line: int
    result: Result
    gain: Gain | None = None
    error: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Optimised:
    """The outcome of :func:`nki.optimise`; it prints as a report."""

    path: Path
    kernel: str
    text: str
    """The text of the file as it was."""
    new_text: str
    before: Profile
    after: Profile
    error: float
    """The greatest relative error of a result as it was, and :attr:`new_error` as it is."""
    new_error: float
    proof: str
    """How it is known that the new text is the same function; "" if nothing stays."""
    attempts: tuple[Attempt, ...]
    left: tuple[Advice, ...]
    """Advice about the new text that no edit carries out."""
    stopped: str = ""
    """Why edits are left that were not tried; "" if none are."""

    @property
    def kept(self) -> tuple[Attempt, ...]:
        """The edits that stay, in order."""
        return tuple(each for each in self.attempts if each.result == "kept")

    @property
    def speedup(self) -> float:
        """How many times as fast the new text is on the device, as predicted."""
        return self.before.device_time / self.after.device_time

    @property
    def diff(self) -> str:
        """The change of the file as a unified diff; "" if nothing stays."""
        old, new = (text.splitlines(keepends=True) for text in (self.text, self.new_text))
        relative = os.path.relpath(self.path)
        name = self.path.name if relative.startswith("..") else relative
        return "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))

    def write(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write the new text to ``path``, by default into the kernel's file; the path.

        Raises :class:`ProfileFileError` if the file cannot be written, or has changed since it was read.
        """
        goal = Path(path) if path is not None else self.path
        try:
            if path is None and goal.read_text(encoding="utf-8") != self.text:
                raise ProfileFileError(f"{goal} has changed since it was read", fix="optimise it again")
            goal.write_text(self.new_text, encoding="utf-8")
        except OSError as error:
            fix = "choose a file that can be written"
            raise ProfileFileError(f"{goal}: {error.strerror or error}", fix=fix) from None
        return goal

    def __str__(self) -> str:
        from nki.optimising.text import report

        return report(self)


__all__ = ["Attempt", "Optimised", "Result"]
