"""``nki.optimise``: tries edits that carry out the profile's advice, and keeps the ones that are right and faster."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from nki import target as targets
from nki.base.errors import KernelArgumentError, NkiError
from nki.compilation.launch_errors import strip_frames
from nki.frontend.frontend_errors import NotAFunctionError
from nki.jit import Kernel
from nki.optimising.edit import Edit, together
from nki.optimising.edits import choices, of_advice
from nki.optimising.judge import Judge
from nki.optimising.kernel_text import KernelText
from nki.optimising.outcome import Attempt, Optimised, Result
from nki.optimising.tidy import tidied, unread
from nki.optimising.version import Gain, Question, RefusedError, Version
from nki.profiling.advice import Advice
from nki.profiling.compiling import Given, as_kernel, checked_target
from nki.profiling.metrics import LEAST_WORTH
from nki.target.model import Target

SECONDS: Final = 120.0
"""The time after which no other edit is tried."""
PROOF_SECONDS: Final = 10.0
"""The time of the search for an input that shows a difference."""
Progress = Callable[[str], None]
Timed = tuple[Edit, Version, Gain]
"""An edit, the version after it, and its gain."""


def optimise(
    kernel: Callable[..., Any],
    target: str | Target | None = None,
    *,
    error: float | None = None,
    seconds: float = SECONDS,
    seed: int = 0,
    trips: Given | None = None,
    progress: Progress = lambda _: None,
) -> Callable[..., Optimised]:
    """``nki.optimise(kernel)(*args)``: edits of the kernel's file that make it faster, as an :class:`Optimised`.

    Each edit carries out advice of the profile. It stays if it is proved that the kernel computes the same function
    over the real numbers (:func:`nki.prove`; where that is not decided, results are compared), if no result has more
    than the allowed error, and if the predicted time falls by more than is uncertain. ``args``: as of
    :func:`nki.profile`. ``target``: ``"trn2"`` or another name; None for the kernel's own.

    ``error``: the relative error that each result may have; by default twice as much as now, or the resolution of its
    dtype if that is more. ``seconds``: after them no other edit is tried. ``seed``: of the numbers that results are
    compared on. ``trips``: as of :func:`nki.profile`. ``progress`` is called with what goes on.

    No file changes: :meth:`Optimised.write` does that.
    Raises :class:`NotAFunctionError` for a kernel without a file, and what compilation raises.
    """
    launched = as_kernel(kernel)
    if error is not None and not 0 < error < float("inf"):
        raise KernelArgumentError(f"error={error!r}: this is no positive number", fix="pass a number such as 1e-2")
    if not seconds > 0:
        raise KernelArgumentError(f"seconds={seconds!r}: a search takes some time", fix="pass a number such as 60")

    @functools.wraps(launched.func)
    def search(*args: Any, **kwargs: Any) -> Optimised:
        try:
            chosen = target if target is None or isinstance(target, Target) else targets.find(str(target))
            path, name = _place(launched)
            question = Question(args, kwargs, checked_target(launched, chosen), trips)
            original = Version(_read(path), str(path), launched, question)
            return _Search(original, path, name, Judge(original, error, seed, PROOF_SECONDS), seconds, progress).run()
        except NkiError as failure:
            __tracebackhide__ = True
            raise strip_frames(failure)  # noqa: B904  # its cause is settled

    return search


def _place(kernel: Kernel) -> tuple[Path, str]:
    """The file of a kernel, and its name there."""
    function = inspect.unwrap(kernel.func)
    file, name = inspect.getsourcefile(function) or "", function.__qualname__
    if not Path(file).is_file() or "." in name:
        where = f"its name is {name}" if "." in name else f"its source is {file or 'not known'}"
        raise NotAFunctionError(
            f"nki.optimise edits a function of a file, and kernel {function.__name__!r} is none: {where}",
            fix="put the kernel into a file, at the top level",
        )
    return Path(file), name


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class _Step:
    """A version that an edit made, the edit, and what it gained."""

    version: Version
    edit: Edit
    gain: Gain
    error: float


class _Search:
    """One search: the steps to the best version so far, and what was tried."""

    def __init__(
        self, original: Version, path: Path, name: str, judge: Judge, seconds: float, progress: Progress
    ) -> None:
        self.original = original
        self.path, self.name = path, name
        self.judge = judge
        self.until = time.monotonic() + seconds
        self.progress = progress
        self.steps: list[_Step] = []
        self.failed: dict[tuple[str, int], Attempt] = {}
        self.settled: set[str] = set()
        """Texts that do not compile, or that compute something else."""
        self.useless: set[str] = set()
        """Titles of edits that did not help so far: they come again when no other edit helps."""

    @property
    def best(self) -> Version:
        return self.steps[-1].version if self.steps else self.original

    def run(self) -> Optimised:
        """Carry on until no edit helps, and the steps are proved."""
        before = self.original.predicted()
        proof = None
        while proof is None:
            while self._one_round(of_advice) or self._one_round(choices) or self._another_chance():
                pass
            proof = self._proved()
        stopped = "the time is over: edits may be left (--seconds)" if self._is_late() else ""
        kept = [Attempt(s.edit.title, s.edit.line, "kept", s.gain, s.error) for s in self.steps]
        error = self.judge.error
        left = tuple(each for each in self.best.profile.advice if not each.condition)
        return Optimised(
            self.path, self.name, self.original.text, self.best.text, before, self.best.profile,
            error, self.steps[-1].error if self.steps else error, proof,
            (*kept, *self.failed.values()), left, stopped,
        )  # fmt: skip

    def _is_late(self) -> bool:
        return time.monotonic() > self.until

    def _another_chance(self) -> bool:
        """Try the edits again that did not help earlier."""
        if not self.useless:
            return False
        self.useless.clear()
        return self._one_round(of_advice) or self._one_round(choices)

    def _one_round(self, find: Callable[[KernelText, Iterable[Advice], str], list[Edit]]) -> bool:
        """Try edits of the best version that may help; True if one stays."""
        text = KernelText(self.best.text, self.name)
        edits = [e for e in find(text, self.best.profile.advice, self.best.file) if e.title not in self.useless]
        timed: list[Timed] = []
        known = unread(text)
        for number, edit in enumerate(edits, 1):
            if self._is_late():
                break
            self.progress(f"edit {number} of {len(edits)}: {edit.title}")
            timed += self._timed(text, edit, known)
        timed.sort(key=lambda each: -each[2].expected)
        timed = [*self._all_that_gain(text, timed, known), *timed]
        return any(self._stays(*each) for each in timed)

    def _all_that_gain(self, text: KernelText, timed: Sequence[Timed], known: frozenset[str]) -> list[Timed]:
        """The edits that gain as one edit, if that gains more than each of them; else nothing."""
        gaining = [edit for edit, _, gain in timed if self._is_worth(gain)]
        both = together(gaining, "")
        if both is None:
            return []
        chosen = [edit.title for edit in gaining if all(splice in both.splices for splice in edit.splices)]
        both = replace(both, title="; ".join(dict.fromkeys(chosen)))
        return [each for each in self._timed(text, both, known) if each[2].expected > timed[0][2].expected]

    def _is_worth(self, gain: Gain) -> bool:
        return _is_gain(gain) and gain.expected >= LEAST_WORTH * self.best.profile.device_time

    def _timed(self, text: KernelText, edit: Edit, known: frozenset[str]) -> list[Timed]:
        """The edit, the version after it, and its gain; nothing if it is refused, now or earlier."""
        try:
            new = tidied(text, edit, known)
        except SyntaxError as refused:
            self._fails(edit, "refused", None, str(refused))
            return []
        if new.text in self.settled or new.text == self.best.text:
            return []
        try:
            version = self.best.edited(new)
            return [(edit, version, version.gain(self.best))]
        except RefusedError as refused:
            self.settled.add(new.text)
            self._fails(edit, "refused", None, str(refused))
            return []

    def _stays(self, edit: Edit, version: Version, gain: Gain) -> bool:
        """Take a version as the best one if it is worth it, and as accurate."""
        if not self._is_worth(gain):
            self._fails(edit, "no faster", gain, "")
            return False
        self.progress(f"running: {edit.title}")
        found = self.judge.is_accurate(version)
        if not found.may_stay:
            self.settled.add(version.text)
            self._fails(edit, "another result", gain, found.words)
            return False
        self.steps.append(_Step(version, edit, gain, found.error))
        return True

    def _proved(self) -> str | None:
        """The proof that the best version is the same function as the original, in words.

        If it is another one, the first step that makes it so is taken back, with all behind it, and there is None.
        """
        if not self.steps:
            return ""
        self.progress("proving that both are the same function")
        found = self.judge.is_equal(self.best)
        if found.may_stay:
            return found.words
        equal, other = 0, len(self.steps) - 1
        while equal < other:
            middle = (equal + other) // 2
            first = self.judge.is_equal(self.steps[middle].version)
            equal, other, found = (middle + 1, other, found) if first.may_stay else (equal, middle, first)
        step = self.steps[other]
        self.settled.add(step.version.text)
        self._fails(step.edit, "another result", step.gain, found.words)
        del self.steps[other:]
        return None

    def _fails(self, edit: Edit, result: Result, gain: Gain | None, reason: str) -> None:
        self.useless.add(edit.title)
        self.failed[edit.title, edit.line] = Attempt(edit.title, edit.line, result, gain, reason=reason)


def _is_gain(gain: Gain) -> bool:
    """Test if a version is faster wherever the facts lie in their ranges."""
    return gain.least > 0


__all__ = ["optimise"]
