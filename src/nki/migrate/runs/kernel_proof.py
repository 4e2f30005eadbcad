"""The proof that a kernel and its new form are the same function."""

from __future__ import annotations

import time
from dataclasses import replace

from nki.base.errors import NkiError
from nki.proofs.prove import proved_subjects
from nki.proofs.subjects import Launch, of_kernels
from nki.proofs.verdict import Verdict


def proved(old: Launch, new: Launch, seconds: float) -> Verdict:
    """The verdict about two launches in about ``seconds``: half of them for the proof, half to search an input.

    What a proof refuses, as a kernel with other outputs, is undecided. ``seconds`` of 0: nothing is tried.
    """
    started = time.monotonic()
    try:
        if seconds <= 0:
            return _undecided(old, "the other proofs took all the time")
        one, other = of_kernels(old, new)
        verdict = proved_subjects(one, other, seed=0, seconds=seconds / 2, limit=seconds / 2)
    except (NkiError, MemoryError) as error:
        text = error.message if isinstance(error, NkiError) else "the proof needs more memory than there is"
        verdict = _undecided(old, text)
    return replace(verdict, seconds=time.monotonic() - started)


def _undecided(old: Launch, reason: str) -> Verdict:
    name = getattr(old.kernel, "__name__", "the kernel")
    return Verdict("undecided", name, name, 1.0, 0, reason)


__all__ = ["proved"]
