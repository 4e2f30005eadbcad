"""``nki profile --step``: predicts a function that calls kernels, and what it does between them."""

from __future__ import annotations

import argparse
import contextlib
import inspect
from collections.abc import Callable
from typing import Any

from nki.base.errors import NkiError
from nki.base.locks import imported
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
    text_width,
)
from nki.cli.terminal_progress import step as tell
from nki.profiling.steps import step_page, step_text
from nki.profiling.steps.step_profile import StepProfile, predicted
from nki.target.model import Target
from nki.workload import arguments as argument
from nki.workload.job import target_of
from nki.workload.load_kernel import opened_step


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki profile --step``."""
    changes = changes_of(options.what_if)
    wanted: list[str | None] = list(options.target or [None])
    _check(options)
    check(options, wanted, bool(changes))
    with aside() if options.json else contextlib.nullcontext():
        sessions = [_session(options, target, may_refuse=len(wanted) > 1) for target in wanted]
        if changes and (first := sessions[0].profile):
            shown = " ".join(f"{name}={value}" for name, value in changes.items())
            sessions.append(Session[StepProfile](shown, changed(first, changes)))
    profiles = [session.profile for session in sessions if session.profile is not None]
    written = _write(options, profiles[0]) if profiles else []
    if options.json:
        print_document({session.title: _document(session) for session in sessions})
    else:
        lines = step_text.OPERATIONS if options.lines is None else lines_of(options.lines)
        print("\n\n".join(step_text.report(each, text_width(), lines) for each in profiles))
        print("".join(f"\n{line}" for line in written), end="\n" if written else "")
        print_errors(sessions)
    if options.open and profiles:
        _open(profiles[0])
    return max(exit_code(session.error) for session in sessions)


def _check(options: argparse.Namespace) -> None:
    """Refuse options that mean one kernel."""
    for option in ("compare", "against", "calibrate", "facts", "parquet", "trips", "order", "cores", "grid"):
        if getattr(options, option) is not None:
            raise UsageError(
                f"--{option} and --step do not go together", f"profile one kernel of the step with --{option}"
            )


def _session(options: argparse.Namespace, target: str | None, *, may_refuse: bool) -> Session[StepProfile]:
    """The session of the step on ``target`` (None: the kernels' own)."""
    session = Session[StepProfile](options.kernel)
    chosen = target_of(target)
    with collecting() as session.warned:
        try:
            session.profile = _profile(options, chosen)
        except (NkiError, UsageError) as error:
            if not may_refuse:
                raise
            session.error = error
        finally:
            tell("")
    name = session.profile.name if session.profile else options.kernel.rpartition(":")[2]
    session.title = f"{name} on {session.profile.target if session.profile else target}"
    return session


def _profile(options: argparse.Namespace, target: Target | None) -> StepProfile:
    parsed = [argument.parse(text) for text in options.arg]
    positional = tuple(value for name, value in parsed if not name)
    named = {name: value for name, value in parsed if name}
    with opened_step(options.kernel) as step:
        _check_arguments(step, positional, named)
        return predicted(step, positional, named, target, options.step, {}, tell)


def _check_arguments(step: Callable[..., Any], positional: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Refuse arguments that do not fit the parameters of ``step``."""
    with contextlib.suppress(ValueError):  # a callable without a signature
        signature = inspect.signature(step)
        try:
            signature.bind(*positional, **named)
        except TypeError as error:
            fix = "pass one --arg for each parameter, in order or as --arg NAME=…, such as --arg 1x128:float32"
            raise UsageError(f"the step{signature}: {error}", fix) from None


def _document(session: Session[StepProfile]) -> dict[str, Any]:
    """A session for ``--json``."""
    if session.profile is None:
        assert session.error is not None, "a session has a profile or an error"
        return {**failure(session.error, session.warned)}
    return {**stamp(), **session.profile.record(), "warnings": warnings(session.warned)}


def _write(options: argparse.Namespace, profile: StepProfile) -> list[str]:
    """Write the files that the options ask for; a line about each."""
    lines: list[str] = []
    if options.html:
        with named_option("--html"):
            page, *others = profile.to_html(options.html)
            kernels = f"{len(others)} report{'s' if len(others) > 1 else ''} of kernels"
            lines.append(f"{page}: the report for a browser, with {kernels} beside it")
    if options.trace:
        with named_option("--trace"):
            lines.append(f"{profile.to_trace(options.trace)}: a trace for Perfetto")
    return lines


def _open(profile: StepProfile) -> None:
    pages = {name: page.encode("utf-8") for name, page in step_page.pages(profile, "step").items()}
    imported("nki.cli.profile_page").serve(pages.pop(""), pages)
