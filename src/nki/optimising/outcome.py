"""The result of ``nki.optimise``: the edits that were tried, the ones that stay, and the new text."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Final, Literal

from nki.base.profile_errors import ProfileFileError
from nki.base.wording import plural
from nki.optimising.version import Gain
from nki.profiling.advice import Advice
from nki.profiling.kernel_profile import Profile

ROWS: Final = 40
"""Rows of the table of edits that the text shows; JSON has all."""
WIDTH: Final = 120
"""Letters of a reason that the text shows."""
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
    """The proof that the new text is the same function, in words; "" if nothing stays."""
    attempts: tuple[Attempt, ...]
    left: tuple[Advice, ...]
    """Advice about the new text that no edit carries out."""
    stopped: str = ""
    """The reason if edits are left that were not tried; "" if none are."""

    @property
    def kept(self) -> tuple[Attempt, ...]:
        """The edits that stay, in order."""
        return tuple(each for each in self.attempts if each.result == "kept")

    @property
    def speedup(self) -> float:
        """The predicted device time before as a multiple of the time with the new text."""
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
        return _report(self, ROWS)


# -- the report --------------------------------------------------------------------------------------------------------


def _report(found: Optimised, rows: int) -> str:
    before, after = found.before, found.after
    head = f"{found.kernel} on {before.target}: {_us(before.device_time)}"
    if not found.kept:
        parts = [f"{head}; no edit makes it faster ({plural(len(found.attempts), 'edit')} tried)"]
    else:
        parts = [
            f"{head} -> {_us(after.device_time)}, {found.speedup:.2f} times as fast; "
            f"error {found.error:.1e} -> {found.new_error:.1e}"
        ]
        parts.append("\n".join(["stays:", *(f"  {_kept(each)}" for each in found.kept)]))
        parts.append(f"the same function as before: {found.proof}")
    if tried := _table(found.attempts, rows):
        parts.append(tried)
    if found.left:
        parts.append("\n".join(["left to you:", *(f"  {_advice(each)}" for each in found.left)]))
    if found.stopped:
        parts.append(found.stopped)
    if found.kept:
        parts.append(found.diff.rstrip("\n"))
    return "\n\n".join(parts)


def _kept(attempt: Attempt) -> str:
    gain = attempt.gain
    assert gain is not None
    return (
        f"line {attempt.line}: {attempt.title}: -{_us(gain.expected)} ({_us(gain.least)} to {_us(gain.most)}), "
        f"error {attempt.error:.1e}"
    )


def _advice(advice: Advice) -> str:
    return f"{advice.title} (-{_us(advice.seconds)}): {advice.remedy}"


def _table(attempts: tuple[Attempt, ...], rows: int) -> str:
    """The edits that do not stay, each once, with the last reason."""
    failed = [each for each in attempts if each.result != "kept"]
    if not failed:
        return ""
    lines = [f"tried, and not kept ({len(failed)}):"]
    for each in failed[:rows]:
        gain = "" if each.gain is None else f" ({-each.gain.expected * 1e6:+.1f} us)"
        reason = f": {shorten(each.reason, WIDTH, placeholder=' …')}" if each.reason else ""
        lines.append(f"  line {each.line}: {each.title}: {each.result}{gain}{reason}")
    if len(failed) > rows:
        lines.append(f"  and {len(failed) - rows} more, which --json has")
    return "\n".join(lines)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


__all__ = ["Attempt", "Optimised", "Result"]
