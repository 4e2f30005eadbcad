"""``nki profile`` of a kernel and of a step: its sessions, and its options with what is refused of them."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from nki.base.errors import NkiError
from nki.base.profile_errors import ProfileFileError, WhatIfError
from nki.base.usage import UsageError
from nki.base.warning import Warned
from nki.cli.output.mistakes import complaint
from nki.profiling.packages import needed
from nki.profiling.text import LINES, WIDTH
from nki.workload.job import target_of


class Changeable(Protocol):
    """A profile that can be made again with changed numbers."""

    def what_if(self, **changes: float) -> Self: ...


P = TypeVar("P", bound=Changeable)


@dataclass(slots=True)
class Session(Generic[P]):
    """A kernel or a step on one target: its profile, or the error that refused it, and the warnings that were given."""

    title: str
    profile: P | None = None
    error: NkiError | UsageError | None = None
    warned: Sequence[Warned] = ()


def changed(profile: P, changes: dict[str, float]) -> P:
    """``profile`` with the ``changes`` of ``--what-if``."""
    try:
        return profile.what_if(**changes)
    except WhatIfError as error:
        raise UsageError(f"--what-if {error.name}={changes[error.name]:g}: {error.problem}", error.fix) from None


def print_errors(sessions: Sequence[Session[Any]]) -> None:
    """Print the errors of the sessions that have no profile."""
    for session in sessions:
        if session.error is not None:
            print(f"{session.title}:\n{complaint(session.error)}", file=sys.stderr)


def lines_of(text: str | None) -> int | None:
    """The number of source lines that ``--lines`` asks for; None for all of them."""
    if text is None:
        return LINES
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--lines {text}: this is no number of lines", "pass a number, such as 20, or all")
    return int(text)


def check(options: argparse.Namespace, wanted: Sequence[str | None], changes: bool) -> None:
    """Refuse combinations that would show more than two things side by side, and files that cannot be written."""
    lines_of(options.lines)
    for target in wanted:
        target_of(target)
    several = {"several --target": len(wanted) > 1, "--compare": bool(options.compare), "--what-if": changes}
    several["--against"] = bool(options.against)
    chosen = [name for name, given in several.items() if given]
    if len(chosen) > 1:
        raise UsageError(f"{' and '.join(chosen)} do not go together", "ask for one after the other")
    files = (("--html", options.html), ("--trace", options.trace), ("--calibrate", options.calibrate))
    if options.calibrate is not None and not options.against:
        raise UsageError("--calibrate needs a capture", "name it: --against CAPTURE")
    if options.trace:
        needed("perfetto", "perfetto", "--trace")
    if options.parquet:
        needed("pyarrow", "pyarrow", "--parquet")
    read = [*reads(options.arg, options.kernel, options.compare), *filter(None, (options.against, options.facts))]
    others = ("--parquet", options.parquet), ("--compare", options.compare), ("--against", options.against)
    for option, value in (*files, *others):
        if value == "":
            raise UsageError(f"{option} is empty", f"name a file: {option} FILE, or leave {option} out")
    for option, file in files:
        check_output(option, file, read)
    for (one, first), (other, second) in combinations([each for each in files if each[1]], 2):
        if _same(Path(first), Path(second)):
            raise UsageError(f"{one} and {other} both name {first}", "give each a file of its own")
    if options.parquet and Path(options.parquet).is_file():
        raise UsageError(f"--parquet {options.parquet}: this is a file", "choose a folder, which may be new")


def _check_file(option: str, file: Path) -> None:
    """Refuse a file that cannot be written, before the work of many seconds for it."""
    if file.is_dir():
        raise UsageError(f"{option} {file}: this is a folder", f"name a file in it, such as {file / 'profile'}")
    if not file.parent.is_dir():
        raise UsageError(f"{option} {file}: there is no folder {file.parent}", f"create it: mkdir -p {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise UsageError(f"{option} {file}: Permission denied", "choose a file that can be written")


def reads(arguments: Sequence[str], *kernels: str | None) -> list[str]:
    """The files that a command reads, and other texts: its kernels, and arguments in files."""
    files = [each.partition(".py:")[0] + ".py" if ".py:" in each else each for each in kernels if each]
    return [*files, *(part for each in arguments for part in (each, each.partition("=")[2]) if part)]


def check_output(option: str, name: str | None, read: Sequence[str]) -> None:
    """Refuse a file that cannot be written, or that is one of those that the command has ``read``."""
    if name is None:
        return
    if not name:
        raise UsageError(f"{option} is empty", f"name a file: {option} FILE, or leave {option} out")
    _check_file(option, Path(name))
    if any(_same(Path(name), Path(each)) for each in read):
        raise UsageError(f"{option} {name}: the command reads this file", "name another file")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve()
    except OSError:  # an argument that is no path
        return False


def changes_of(texts: Sequence[str]) -> dict[str, float]:
    """The numbers of ``--what-if`` by their names."""
    changes: dict[str, float] = {}
    for each in texts:
        name, _, value = each.partition("=")
        name = name.strip()
        if name in changes:
            raise UsageError(f"--what-if {name} is given twice", "ask for one after the other")
        try:
            changes[name] = int(value) if value.isdecimal() else float(value)
        except ValueError:
            raise UsageError(f"--what-if {each}: this is no NAME=NUMBER", "such as dma_bandwidth=2.0") from None
    return changes


def stated_trips(text: str | None) -> tuple[int, int] | None:
    """The least and the most iterations that ``--trips`` states: ``64``, or ``0:64``."""
    if text is None:
        return None
    least, _, most = text.partition(":")
    if not least.isdecimal() or not (most or least).isdecimal() or int(most or least) < int(least):
        raise UsageError(f"--trips {text}: this is no number of iterations", "pass a number, or a range such as 0:64")
    return int(least), int(most or least)


def text_width() -> int:
    """Columns of the text: of the terminal, if it goes to one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH


@contextlib.contextmanager
def named_option(option: str) -> Generator[None]:
    """Context manager: a file that cannot be written is a mistake in ``option``."""
    try:
        yield
    except ProfileFileError as error:
        raise UsageError(f"{option} {error.message}", error.fix) from None
