"""A version of a kernel: the text of its file, the kernel that it makes, and the predicted run."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Final, NamedTuple

from nki.base.errors import NkiError
from nki.base.warning import collecting
from nki.jit import Kernel
from nki.optimising.kernel_text import KernelText, bound_by
from nki.profiling.compiling import Given
from nki.profiling.kernel_profile import Profile, profile
from nki.sim.timing import TimedProgram
from nki.source_text.source import names_in
from nki.target.model import Target

_NUMBERS: Final = count(1)
_EDITED: Final = " (edited, "
"""Stands in names of texts that are no files, as reports quote them."""
_AS_IT_IS: Final = "_as_it_is"
"""The name of a decorator that changes nothing."""


class RefusedError(Exception):
    """An edited text that Python or the compiler refuses; it says why."""


@dataclass(frozen=True)
class Question:
    """The arguments and the target of all versions of a kernel, and the iterations that its caller states."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    target: Target
    trips: Given | None = None


class Gain(NamedTuple):
    """The time in seconds that a version takes less than another one: ``expected``; ``least`` and ``most`` if all
    numbers that are not known exactly are at the fast, or at the slow, end of their ranges for both.
    """

    expected: float
    least: float
    most: float


class Version:
    """The text of a kernel's file, ``kernel``, and its :attr:`profile`."""

    def __init__(self, text: str, file: str, kernel: Kernel, question: Question) -> None:
        self.text = text
        self.file = file
        """The name of the text in spans: of the file itself, or of one of its edited versions."""
        self.kernel = kernel
        self.question = question
        self._profile: Profile | None = None

    def edited(self, text: KernelText) -> Version:
        """The version with ``text`` in place of the file. Nothing is written.

        Raises :class:`RefusedError` for a text that Python refuses.
        """
        file = f"{self.file.partition(_EDITED)[0]}{_EDITED}{next(_NUMBERS)})"
        function = inspect.unwrap(self.kernel.func)
        namespace: dict[str, Any] = {**function.__globals__, _AS_IT_IS: _as_it_is}
        try:
            code = compile(_changed(text, self._statements), file, "exec")
            linecache.cache[file] = (len(text.text), None, text.text.splitlines(keepends=True), file)
            exec(code, namespace)  # a part of the user's own file, with a change of ours
        except Exception as error:  # the user's Python, which an edit may have broken
            raise RefusedError(f"{type(error).__name__}: {error}") from None
        return Version(text.text, file, self.kernel.varied(func=namespace[text.name]), self.question)

    @cached_property
    def _statements(self) -> frozenset[str]:
        """The statements of the file, in a form to compare."""
        return frozenset(ast.dump(each) for each in ast.parse(self.text).body)

    def predicted(self) -> Profile:
        """The predicted run. Raises what the kernel and its compilation raise."""
        if self._profile is None:
            question = self.question
            predict = profile(self.kernel, question.target, question.trips)
            with collecting(aside=True):
                self._profile = predict(*question.args, **question.kwargs)
        return self._profile

    @property
    def profile(self) -> Profile:
        """The predicted run. Raises :class:`RefusedError`."""
        try:
            return self.predicted()
        except NkiError as error:
            raise RefusedError(f"{type(error).__name__}: {error.message}") from None
        except Exception as error:  # the user's Python, which an edit may have broken
            raise RefusedError(f"{type(error).__name__}: {error}") from None

    @cached_property
    def times(self) -> tuple[float, float, float]:
        """The device time as predicted, and with all guesses at the fast and at the slow end; s."""
        target = self.question.target
        timed: TimedProgram = self.profile.timed
        fast, slow = (timed.run(target.bound(end)).ns * 1e-9 for end in (0, 1))
        return self.profile.device_time, fast, slow

    def gain(self, before: Version) -> Gain:
        """The gain over ``before``."""
        gains = [one - other for one, other in zip(before.times, self.times, strict=True)]
        return Gain(gains[0], min(gains), max(gains))


def _as_it_is(function: Any) -> Any:
    return function


def _changed(text: KernelText, before: frozenset[str]) -> ast.Module:
    """The part of a file that an edit makes run again: the functions of the kernel, and constants that are not among
    the statements ``before``.

    The decorators of the kernel's function are left out: a registry would know the kernel twice.
    """
    again: set[str] = set()
    body: list[ast.stmt] = []
    for each in text.source.tree.body:
        if isinstance(each, ast.FunctionDef) and each in text.functions:
            if each.name == text.name:
                each.decorator_list = [
                    ast.copy_location(ast.Name(_AS_IT_IS, ast.Load()), old) for old in each.decorator_list
                ]
            body.append(each)
        elif isinstance(each, ast.Assign) and (ast.dump(each) not in before or again & names_in(each.value)):
            again |= bound_by(each)
            body.append(each)
    return ast.Module(body, [])


__all__ = ["Gain", "Question", "RefusedError", "Version"]
