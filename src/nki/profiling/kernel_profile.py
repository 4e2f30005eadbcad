"""``nki.profile``: predict the time of a kernel on the device, and say where it goes."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nki import target as targets
from nki.base.errors import KernelArgumentError, NkiError
from nki.base.locks import imported
from nki.base.profile_errors import ProfileFileError
from nki.base.source import Span
from nki.compilation.launch_errors import strip_frames
from nki.ir.program import Program
from nki.profiling import notebook, parquet, text, trace
from nki.profiling.advice import AdvisedRun
from nki.profiling.against import capture as captures
from nki.profiling.against import report
from nki.profiling.against.calibration import calibrated
from nki.profiling.against.measured import MeasuredRun
from nki.profiling.assumptions import ORDERS, Assumption, Compiled, Queues
from nki.profiling.compiling import Given, as_kernel, compiled_kernel, origin_of, trips_of
from nki.profiling.draws import Ranking, ranking_of
from nki.profiling.metrics import changed_lines
from nki.profiling.origin import UNKNOWN, Origin
from nki.profiling.summary import summary
from nki.sim.timing import TimedProgram, Trips
from nki.target.model import Target


class Profile(AdvisedRun):
    """The predicted run of a kernel on one target, with advice, and its reports."""

    def compare(self, other: Profile) -> Comparison:
        """The profile beside another one: another kernel, target or what-if."""
        if not isinstance(other, Profile):  # pyright: ignore[reportUnnecessaryIsInstance]  # a user's argument
            raise KernelArgumentError(
                f"compare({other!r:.60}): this is no profile", fix="pass the result of nki.profile(kernel)(*args)"
            )
        return Comparison(self, other)

    def against(self, capture: str | os.PathLike[str]) -> Against:
        """The profile beside a capture of the kernel on a device: a folder of Parquet tables, one of their files, or a
        ``summary-json``. It says which fact or assumption explains the difference (:mod:`nki.profiling.against`).

        Raises :class:`CaptureError` for one that cannot be read, or that is of another kernel or target.
        """
        return Against(self, captures.read(os.fspath(capture)))

    def summary(self) -> dict[str, Any]:
        """The fields of the public profiler's ``summary-json``, times in seconds; see :mod:`nki.profiling.summary`."""
        return summary(self)

    def to_parquet(self, folder: str | Path) -> list[Path]:
        """Write the tables of the public profiler into ``folder``, one file each; the files.

        Raises :class:`MissingPackageError` without the package ``pyarrow``.
        """
        return parquet.write(self, Path(folder))

    def to_trace(self, path: str | Path) -> Path:
        """Write a Perfetto trace of the run to the file ``path``.

        Raises :class:`MissingPackageError` without the package ``perfetto``.
        """
        return trace.write(self, Path(path))

    def __str__(self) -> str:
        return text.report(self)

    def _repr_html_(self) -> str:
        return notebook.table(self)

    def to_html(self, path: str | os.PathLike[str], against: Against | None = None) -> Path:
        """Write the report to ``path``: one HTML file that needs no network (:mod:`nki.profiling.html`). The path.
        ``against``: the report shows the capture, too.

        Raises :class:`ProfileFileError` if the file cannot be written.
        """
        file = Path(path)
        page = imported("nki.profiling.html").render(self, against)
        try:
            file.write_text(page, encoding="utf-8")
        except OSError as error:
            fix = "choose a file that can be written"
            raise ProfileFileError(f"{file}: {error.strerror or error}", fix=fix) from None
        return file

    def __repr__(self) -> str:
        return f"<profile of {self.name} on {self.target}: {self.latency * 1e6:.2f} us>"


class Against(MeasuredRun):
    """A profile beside a capture of its kernel on a device: ``times``, ``instructions``, ``by_line``, and the
    ``explanations`` of the difference; ``calibrate(file)`` writes the facts that the capture supports.
    """

    def __str__(self) -> str:
        return report.text(self)

    def __repr__(self) -> str:
        return f"<{self.profile!r} against {self.capture.file}>"


@dataclass(frozen=True)
class Comparison:
    """Two profiles; ``speedup`` is how many times as fast the second one is."""

    first: Profile
    second: Profile

    @property
    def speedup(self) -> float:
        return self.first.latency / self.second.latency

    @cached_property
    def ranking(self) -> Ranking | None:
        """The draws of what is not known in which the second one is faster; None beside a what-if."""
        return ranking_of(self.first, self.second)

    @property
    def changed_lines(self) -> list[tuple[Span | None, float]]:
        """The lines of both profiles that take more, or less, of the critical path of the second one: the line and the
        change in ns, the greatest first.
        """
        return changed_lines(self.first.lines, self.second.lines)

    def __str__(self) -> str:
        return text.compared(self.first, self.second)

    def _repr_html_(self) -> str:
        return notebook.compared(self.first, self.second)


def profile(
    kernel: Callable[..., Any],
    target: str | Target | None = None,
    trips: Given | None = None,
    order: Queues | None = None,
    facts: str | os.PathLike[str] | None = None,
) -> Callable[..., Profile]:
    """``nki.profile(kernel, target="trn2")(*args)``: the predicted run on the device, as a :class:`Profile`.

    ``args`` are arrays, or objects with ``shape`` and ``dtype``: only loops with a number of iterations that depends on
    data need the data, and a run on the CPU then counts them. ``trips`` states them instead: a number, or a pair of the
    least and the greatest (the profile then holds the greatest, its interval both), for all such loops or by line.
    ``order``: each queue runs in the order of the list scheduler (``"list"``) or of the ``"program"``; None: as
    ``OPEN_NKI_REORDER`` says. The interval holds both. ``facts``: a file of calibrated facts, which the replay has in
    place of the target's (None: ``NKI_FACTS``, if it is of this target). Nothing is run otherwise, and no cache
    changes.
    """
    as_kernel(kernel)
    if order not in (None, *ORDERS):
        raise KernelArgumentError(f"order={order!r}: there is no such order", fix=f"use one of {', '.join(ORDERS)}")

    @functools.wraps(getattr(kernel, "func", kernel))
    def predict(*args: Any, **kwargs: Any) -> Profile:
        try:
            chosen = target if target is None or isinstance(target, Target) else targets.find(str(target))
            compiled, inputs = compiled_kernel(kernel, args, kwargs, chosen, order)
            least, most = trips_of(compiled.timed.program, inputs, trips)
            own = targets.find(compiled.timed.program.target)
            known = calibrated(own, None if facts is None else os.fspath(facts))
            return of_program(compiled, most, least, origin_of(kernel, args, kwargs), known)
        except NkiError as error:
            __tracebackhide__ = True
            raise strip_frames(error)  # noqa: B904  # its cause is settled

    return predict


def of_program(
    kernel: Program | Compiled,
    trips: Trips | None = None,
    least: Trips | None = None,
    origin: Origin = UNKNOWN,
    target: Target | None = None,
) -> Profile:
    """The profile of a kernel after the last stage; ``least``: the fewest iterations, for the interval. ``target``: the
    kernel's, with other facts.
    """
    compiled = Compiled(TimedProgram(kernel)) if isinstance(kernel, Program) else kernel
    program = compiled.timed.program
    timed = compiled.timed.with_trips(trips or {})
    fewest = timed if least in (None, trips) else timed.with_trips(least)

    def assumptions() -> tuple[Assumption, ...]:
        counts = {"fast": least or trips or {}, "slow": trips or {}, "aside": trips or {}}
        return tuple(each.with_trips(program, counts[each.end]) for each in compiled.find_assumptions())

    known = target or targets.find(program.target), timed, fewest, assumptions, origin
    return Profile(program, *known, compiled.recompiled, compiled.queues)
