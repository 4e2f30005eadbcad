"""The report of ``nki optimise``: what stays, what was tried, what is left, and the diff."""

from __future__ import annotations

from typing import Final

from nki.base.wording import plural
from nki.optimising.outcome import Attempt, Optimised
from nki.profiling.advice import Advice

ROWS: Final = 40
"""Rows of the table that the text shows; JSON has all."""


def report(found: Optimised, rows: int = ROWS) -> str:
    """The report as text."""
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
        reason = f": {each.reason}" if each.reason else ""
        lines.append(f"  line {each.line}: {each.title}: {each.result}{gain}{reason}")
    if len(failed) > rows:
        lines.append(f"  and {len(failed) - rows} more, which --json has")
    return "\n".join(lines)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


__all__ = ["report"]
