"""The plan of a sweep: the points of a space for one kernel, joined to jobs of one program each."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from nki import target as targets
from nki.base import knobs
from nki.base.errors import GridError, NkiError
from nki.base.sweep_errors import SpaceError
from nki.base.usage import UsageError
from nki.compilation.cache.captured_values import constant_key
from nki.compilation.cache.fingerprint import fingerprint
from nki.jit import Kernel
from nki.sweeps import results
from nki.sweeps.comparison import Function, ReferenceName, named
from nki.sweeps.evaluation import Steps
from nki.sweeps.jobs import Job
from nki.sweeps.record import Outcome, failed, outcome
from nki.sweeps.space import Point, Space
from nki.workload import load_kernel
from nki.workload.arguments import TensorArgument
from nki.workload.job import Work, bound, released

_DRAWS: Final = 8
"""Draws of one program in a job: its compilation serves all, and workers still share the rest."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel, the file and the name by which a worker finds it (both empty if no file has it by a name), and the
    reference that judges it.
    """

    kernel: Kernel
    file: str = ""
    name: str = ""
    reference: ReferenceName | None = None
    function: Function | None = None

    @property
    def kernel_name(self) -> str:
        return self.kernel.func.__name__

    def fitting(self, space: Space) -> Space:
        """``space`` if it fits the kernel's parameters. Raises :class:`SpaceError`."""
        parameters = inspect.signature(self.kernel.func).parameters.values()
        stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = {each.name: each.default is each.empty for each in parameters if each.kind not in stars}
        takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
        return space.checked(self.kernel_name, needed, takes_any)


@contextlib.contextmanager
def opened(kernel: str | Kernel | Callable[..., Any], reference: str | Function | None) -> Generator[Subject]:
    """The kernel, as an object or as FILE.py:NAME, with its reference, as a function or as ``comparison`` names it."""
    if isinstance(kernel, str):
        file, name = load_kernel.split(kernel)
        with load_kernel.opened(kernel) as found:
            if not isinstance(found, Kernel):
                raise UsageError(f"{kernel} is a compiled program", "pass FILE.py:NAME: a space changes its arguments")
            path = str(Path(file).resolve())
            yield _with_reference(found, path, name or found.func.__qualname__, reference)
        return
    launched = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
    yield _with_reference(launched, *_place(launched), reference)


def _place(kernel: Kernel) -> tuple[str, str]:
    """The file of a kernel and its name there; empty if that name means another object, or none."""
    module = sys.modules.get(kernel.func.__module__)
    found: Any = module
    for part in kernel.func.__qualname__.split("."):
        found = getattr(found, part, None)
    file = getattr(module, "__file__", None)
    is_same = found is kernel or found is kernel.func
    return (str(Path(file).resolve()), kernel.func.__qualname__) if is_same and file else ("", "")


def _with_reference(kernel: Kernel, file: str, name: str, reference: str | Function | None) -> Subject:
    if callable(reference):
        module = sys.modules.get(getattr(reference, "__module__", None) or "")
        own, qualified = getattr(module, "__file__", None), getattr(reference, "__qualname__", "")
        if own and getattr(module, qualified, None) is reference:
            return Subject(kernel, file, name, ReferenceName(str(Path(own).resolve()), qualified), reference)
        return Subject(kernel, "", "", None, reference)  # it has no name, so that only this process can call it
    place = file or inspect.getsourcefile(kernel.func) or ""
    known = named(reference or "", place)
    module = sys.modules.get(kernel.func.__module__)
    return Subject(kernel, file, name, known, known.found(module) if known is not None else None)


@dataclass(frozen=True, slots=True)
class Planned:
    """A point, its arguments, the name under which its outcome is kept (None: it cannot be), and an outcome that is
    known before anything runs.
    """

    point: Point
    target: str
    texts: tuple[str, ...]
    key: str | None
    known: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """All points, and which of them belong to one program: lists of indices."""

    points: list[Planned]
    programs: list[list[int]]


def planned(subject: Subject, space: Space, points: Iterable[Point], steps: Steps) -> Plan:
    """The plan of ``points``. Raises :class:`SpaceError` for arguments that cannot be read."""
    rows: list[Planned] = []
    programs: dict[Any, list[int]] = {}
    names: dict[Any, str | None] = {}
    judged = subject.reference.digest() if subject.reference is not None else subject.function and id(subject.function)
    for point in points:
        texts = space.texts(point)
        target = targets.find(point.target) if point.target else subject.kernel.chosen_target()
        if point.cores is not None and point.cores > target.logical_core_max:
            few = GridError(f"a kernel runs on at most {target.logical_core_max} cores of {target.name}")
            rows.append(Planned(point, target.name, texts, None, failed(outcome(), few)))
            continue
        try:
            work = bound(subject.kernel, subject.file or subject.kernel_name, texts, target, point.cores)
            group = (target.name, point.release, point.cores, *(_content(n, v) for n, v in work.arguments.items()))
        except (UsageError, NkiError) as error:
            message = error.message.replace("--arg ", "", 1)
            raise SpaceError(f"{space.origin}: [arguments]: {message}", fix=error.fix) from None
        if group not in names:
            names[group] = outcome_name(work, point.release, steps)
        programs.setdefault(group, []).append(len(rows))
        name = names[group]
        if name is not None and steps.runs:  # what runs depends on its inputs, and on the judge
            inputs = [each.fill or _digest(each) for each in work.tensors]
            name = None if isinstance(judged, int) else results.key(name, inputs, point.seed, judged)
        rows.append(Planned(point, target.name, texts, name))
    return Plan(rows, list(programs.values()))


def _content(name: str, value: Any) -> Any:
    return (name, value.shape, value.dtype) if isinstance(value, TensorArgument) else constant_key(name, value)


def outcome_name(work: Work, release: str | None, steps: Steps) -> str | None:
    """The name for outcomes of a program on no particular inputs; None for a kernel without a fingerprint."""
    kernel = cast("Kernel", work.kernel)
    with released(release):
        found = fingerprint(
            kernel.func, work.specs(), work.target, kernel.launch_grid(work.target), kernel.schedule, kernel.configs
        )
    knob = knobs.hazards(), knobs.precise_fp()
    return results.key(found.digest, work.target.name, steps, knob) if found is not None else None


def _digest(tensor: TensorArgument) -> str:
    """The content of an input from a file."""
    return hashlib.sha256(tensor.array(0, 0).tobytes()).hexdigest()


def jobs(subject: Subject, plan: Plan, left: Sequence[bool], steps: Steps) -> Generator[tuple[Job, list[int]]]:
    """The jobs of the points that are ``left`` to do, each with the indices of its points.

    Targets, releases and numbers of cores follow one another: programs that differ in these alone have mostly the same
    native routines, and two workers that have them at the same time would both compile each.
    """

    def machine(program: list[int]) -> tuple[str, str, int]:
        point = plan.points[program[0]].point
        return plan.points[program[0]].target, point.release or "", point.cores or 0

    for program in sorted(plan.programs, key=machine):
        chosen = [index for index in program if left[index]]
        for start in range(0, len(chosen), _DRAWS):
            part = chosen[start : start + _DRAWS]
            first = plan.points[part[0]]
            draws = tuple((plan.points[index].texts, plan.points[index].point.seed) for index in part)
            release, cores = first.point.release, first.point.cores
            yield Job(subject.file, subject.name, first.target, release, cores, draws, subject.reference, steps), part
