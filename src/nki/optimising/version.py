"""A version of a kernel: the text of its file, run as a module of its own, and the predicted run."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from nki.base.errors import NkiError
from nki.base.warning import collecting
from nki.jit import Kernel
from nki.profiling.compiling import Given
from nki.profiling.kernel_profile import Profile, profile
from nki.sim.timing import TimedProgram
from nki.target.model import Target
from nki.workload import load_kernel

_NUMBERS: Final = count(1)


class RefusedError(Exception):
    """A text that is no Python, whose kernel does not compile, or that has no kernel any more; it says which."""


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

    @classmethod
    def edited(cls, text: str, path: Path, name: str, original: Kernel, question: Question) -> Version:
        """``text`` in place of the file ``path``, and its kernel ``name``. Nothing is written.

        Raises :class:`RefusedError`.
        """
        file = f"{path} (edited, {next(_NUMBERS)})"
        module = _module(text, path, file)
        try:
            kernel = load_kernel.find(module, name, path)
        except NkiError as error:
            raise RefusedError(error.message) from None
        return cls(text, file, _launched_like(kernel, original), question)

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


def _module(text: str, path: Path, file: str) -> ModuleType:
    """``text`` run as the module that ``path`` is; reports quote it under the name ``file``."""
    try:
        code = compile(text, file, "exec")
    except SyntaxError as error:
        raise RefusedError(f"SyntaxError: {error.msg}") from None
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    root = load_kernel.root_of(path)
    name = ".".join(path.resolve().relative_to(root).with_suffix("").parts)
    module = ModuleType(name)
    module.__file__ = str(path)
    module.__package__ = name.rpartition(".")[0]
    before = list(sys.path)
    sys.path[:0] = [str(root), str(Path.cwd())]
    try:
        exec(code, module.__dict__)  # the user's own file, with a change of ours
    except NkiError as error:
        raise RefusedError(f"{type(error).__name__}: {error.message}") from None
    except Exception as error:  # the user's Python, which an edit may have broken
        raise RefusedError(f"{type(error).__name__}: {error}") from None
    finally:
        sys.path[:] = before
    return module


def _launched_like(kernel: Kernel, original: Kernel) -> Kernel:
    """``kernel`` on the grid and the target of ``original``."""
    return kernel.varied(grid=original.grid, target=original.target)


__all__ = ["Gain", "Question", "RefusedError", "Version"]
