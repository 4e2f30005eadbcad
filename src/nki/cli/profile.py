"""``nki profile``: predicts the run of a kernel on the device, and writes the prediction as text, JSON or files."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nki.base.errors import NkiError
from nki.base.locks import imported
from nki.base.profile_errors import TripCountError
from nki.base.usage import UsageError
from nki.base.warning import collecting
from nki.cli.output.findings import failure, warnings
from nki.cli.output.mistakes import exit_code
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.cli.profile_options import (
    Session,
    changed,
    changes_of,
    check,
    lines_of,
    named_option,
    print_errors,
    stated_trips,
    text_width,
)
from nki.cli.terminal_progress import step
from nki.ir.loop import Loop
from nki.ir.program import Program
from nki.profiling import text
from nki.profiling.against import report
from nki.profiling.against.calibration import calibrated
from nki.profiling.assumptions import compiled
from nki.profiling.compiling import Inputs, trips_of, unknown_loops
from nki.profiling.kernel_profile import Against, Comparison, Profile, of_program
from nki.profiling.origin import Origin, arguments_of
from nki.profiling.record import comparison, details
from nki.profiling.titles import numbered, titles
from nki.sim.timing import Trips, deciding_inputs
from nki.workload.arguments import TensorArgument
from nki.workload.job import Work, prepared
from nki.workload.load_kernel import split


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki profile``."""
    if options.step is not None:
        return int(imported("nki.cli.profile_step").command(options))
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed}: seeds are not negative")
    changes = changes_of(options.what_if)
    stated_trips(options.trips)
    wanted: list[str | None] = list(options.target or [None])
    check(options, wanted, bool(changes))
    # What the kernel prints while it is specialised must not end up inside the JSON.
    with aside() if options.json else contextlib.nullcontext():
        sessions = _sessions(options, wanted, changes)
    profiles = [session.profile for session in sessions if session.profile is not None]
    against = _against(options, profiles)
    written = _write(options, profiles[0], against) if profiles else []
    if options.json:
        print_document(_documents(sessions, against))
    else:
        if profiles:
            print(_text(profiles, lines_of(options.lines)))
            if against is not None:
                print(f"\n{report.text(against, text_width())}")
            print("".join(f"\n{line}" for line in written), end="\n" if written else "")
        print_errors(sessions)
    if options.open and profiles:
        _open(profiles[0], against)
    return max(exit_code(session.error) for session in sessions)


def _sessions(
    options: argparse.Namespace, wanted: Sequence[str | None], changes: dict[str, float]
) -> list[Session[Profile]]:
    """A session for each target; then one of the kernel of ``--compare``, or of the changes of ``--what-if``.

    Of several targets each one is tried. A mistake of the command that all of them have is raised.
    """
    sessions = [_session(options.kernel, options, target, may_refuse=len(wanted) > 1) for target in wanted]
    if all(isinstance(session.error, UsageError) for session in sessions):
        raise next(session.error for session in sessions if session.error is not None)
    profiles = [session.profile for session in sessions if session.profile is not None]
    if options.compare:
        sessions.append(_compared(options, wanted[0]))
    if changes:
        sessions.append(Session[Profile]("", changed(profiles[0], changes)))
    named = titles([session.profile for session in sessions if session.profile is not None])
    titled = [session for session in sessions if session.profile is not None]
    for session, title in zip(titled, named, strict=True):
        session.title = title
    for session, title in zip(sessions, numbered([session.title for session in sessions]), strict=True):
        session.title = title
    return sessions


def _session(
    source: str, options: argparse.Namespace, target: str | None, *, may_refuse: bool = False
) -> Session[Profile]:
    """The session of the kernel that ``source`` names, on ``target`` (None: the kernel's own)."""
    name = split(source)[1] or Path(source).stem
    session = Session[Profile](f"{name} on {target}" if target else name)
    with collecting() as session.warned:
        try:
            _profile(session, source, options, target)
        except (NkiError, UsageError) as error:
            if not may_refuse:
                raise
            session.error = error
    return session


def _profile(session: Session[Profile], source: str, options: argparse.Namespace, target: str | None) -> None:
    """Fill in the profile of the kernel that ``source`` names, on ``target`` (None: the kernel's own)."""
    with _steps() as tell, prepared(source, options.arg, target, options.cores, options.grid) as work:
        session.title = f"{work.name} on {work.target}"
        tell(f"compiling {work.name} for {work.target}")
        kernel = compiled(lambda observe: work.compile(observe=observe), work.target, options.order)
        program = kernel.timed.program
        least: Trips = {}
        most: Trips = {}
        if options.trips is not None and not unknown_loops(program):
            raise UsageError(
                f"--trips {options.trips}: {work.name} has no loop with a number of iterations that depends on data",
                "leave --trips out",
            )
        if unknown_loops(program):
            tell(f"counting the iterations of {work.name}")
            least, most = trips_of(program, _data(work, program, options), stated_trips(options.trips))
        tell(f"replaying {program.size:,} instructions")
        file = "" if source == "-" else split(source)[0]
        known = calibrated(work.target, options.facts)
        profile = of_program(kernel, most, least, Origin(file, arguments_of(work.arguments)), known)
        for part in ("interval", "lower_bound", "lines", "memory"):  # so that the line says what takes time
            tell(f"measuring {work.name}: {part.replace('_', ' ')}")
            getattr(profile, part)
    session.profile = profile


def _against(options: argparse.Namespace, profiles: Sequence[Profile]) -> Against | None:
    """The capture of ``--against`` beside the profile."""
    if not options.against or not profiles:
        return None
    with _steps() as tell:
        tell(f"replaying {profiles[0].name} under other facts")
        against = profiles[0].against(options.against)
        _ = against.explanations
    return against


def _compared(options: argparse.Namespace, target: str | None) -> Session[Profile]:
    """The session of the kernel of ``--compare``, which has the arguments of the first one."""
    try:
        return _session(options.compare, options, target)
    except UsageError as error:
        fix = f"{error.fix}; both kernels get the same --arg" if error.fix else ""
        raise UsageError(f"--compare {options.compare}: {error.message}", fix) from None


@contextlib.contextmanager
def _steps() -> Generator[Callable[[str], None]]:
    """Context manager: a function that shows on the terminal what is going on; the line goes away at the end."""
    try:
        yield step
    finally:
        step("")


def _data(work: Work, program: Program, options: argparse.Namespace) -> Inputs:
    """The inputs of a run that counts iterations. Those that decide the counts have data that the command names.

    Raises :class:`TripCountError` for one that has only a shape, unless the command states the iterations.
    """
    if options.trips is not None:
        return Inputs({})
    missing = {n: v for n, v in work.arguments.items() if isinstance(v, TensorArgument) and not v.given}
    for core in program.cores:
        for loop in unknown_loops(program):
            decisive = [name for name in deciding_inputs(loop, core) if name in missing]
            if decisive:
                raise _without_data(loop, {name: missing[name] for name in decisive})
    return Inputs({str(number): lambda array=array: array for number, array in enumerate(work.arrays(options.seed))})


def _without_data(loop: Loop, inputs: Mapping[str, TensorArgument]) -> TripCountError:
    """The error for a loop with a number of iterations that depends on ``inputs``, which have only shapes."""
    names = " and ".join(f"'{name}'" for name in inputs)
    name, first = next(iter(inputs.items()))
    filling = f"{name}={'x'.join(map(str, first.shape))}:{first.dtype}:ones"
    error = TripCountError(
        f"the number of iterations of this loop depends on the contents of {names}, and only shapes are known",
        fix=f"pass the data, as --arg {name}=FILE.npy or a filling such as --arg {filling}, or state it, as --trips 64",
    )
    error.at(loop.where.span, loop.where.stack)
    return error


def _text(profiles: Sequence[Profile], lines: int | None) -> str:
    if len(profiles) == 1:
        return text.report(profiles[0], text_width(), lines)
    if len(profiles) == 2:
        return text.compared(*profiles)
    return text.side_by_side(profiles)


def _documents(sessions: Sequence[Session[Profile]], against: Against | None) -> dict[str, Any]:
    """The sessions by title, in the order of the command: of a target that refuses the kernel, the error."""
    documents: dict[str, Any] = {}
    first = sessions[0]
    for session in sessions:
        profile = session.profile
        if profile is None:
            assert session.error is not None, "a session has a profile or an error"
            documents[session.title] = failure(session.error, session.warned)
            continue
        document = {**stamp(), **profile.summary(), **details(profile), "warnings": warnings(session.warned)}
        if against is not None:
            document["against"] = report.record(against)
        if session is not first and first.profile is not None:
            document["comparison"] = comparison(Comparison(first.profile, profile), first.title)
        documents[session.title] = document
    return documents


def _write(options: argparse.Namespace, profile: Profile, against: Against | None) -> list[str]:
    """Write the files that the options ask for, of the first profile; a line about each."""
    lines: list[str] = []
    if options.html:
        with named_option("--html"):
            lines.append(f"{profile.to_html(options.html, against)}: the report for a browser")
    if options.trace:
        with named_option("--trace"):
            lines.append(f"{profile.to_trace(options.trace)}: a trace for Perfetto")
    if options.parquet:
        with named_option("--parquet"):
            lines.append(f"{options.parquet}: {len(profile.to_parquet(options.parquet))} tables")
    if options.calibrate and against is not None:
        with named_option("--calibrate"):
            against.calibrate(options.calibrate)
        lines.append(report.learned(against, options.calibrate))
    return lines


def _open(profile: Profile, against: Against | None) -> None:
    page = imported("nki.profiling.html").render(profile, against)
    imported("nki.cli.profile_page").serve(page.encode("utf-8"))
