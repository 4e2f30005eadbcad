"""``nki sweep``: a kernel at all points of a space, on this machine's processors or on a cluster."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Generator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final, Self

from nki.base.profile_errors import ProfileFileError
from nki.base.usage import UsageError
from nki.cli.output.documents import Failing, Sweep
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.cli.terminal_progress import step
from nki.profiling.packages import needed
from nki.sweeps import space as spaces
from nki.sweeps.run import sweep
from nki.sweeps.space import Space
from nki.sweeps.table import SHOWN, Table, text
from nki.workload.job import target_of

_PATIENCE: Final = 10.0
"""Seconds between two lines about the progress, where stderr is no terminal."""


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki sweep``: 1 if a point fails."""
    shown = rows(options.rows)
    for option, file in (("--html", options.html), ("--parquet", options.parquet)):
        check_file(option, file)
    if options.parquet:
        needed("pyarrow", "pyarrow", "--parquet")
    space = narrowed(options)
    # What kernels print while they are specialised must not end up inside the JSON.
    with (
        aside() if options.json else contextlib.nullcontext(),
        Told("points") as told,
        cluster(options.dask) as executor,
    ):
        table = sweep(
            options.kernel,
            space,
            reference=options.reference,
            executor=executor,
            processes=options.processes,
            results=options.out,
            progress=told,
        )
    written = _write(table, options)
    if options.json:
        print_document(_document(table))
    else:
        print(text(table, shown))
        print("".join(f"\n{line}" for line in written), end="\n" if written else "")
    return 1 if table.failed else 0


def narrowed(options: argparse.Namespace) -> Space:
    """The space of ``--space``, with what other options say in its place."""
    space = spaces.of(options.space)
    if options.target:
        space = space.narrowed(targets=tuple(target.name for name in options.target if (target := target_of(name))))
    if options.seeds is not None:
        if options.seeds < 1:
            raise UsageError(f"--seeds {options.seeds}: there is at least one")
        space = space.narrowed(seeds=tuple(range(options.seeds)))
    if options.processes is not None and options.processes < 1:
        raise UsageError(f"--processes {options.processes}: there is at least one")
    return space


def rows(given: str | None) -> int | None:
    """The number of rows that ``--rows`` asks for; None for all of them."""
    if given is None:
        return SHOWN
    if given == "all":
        return None
    if not given.isdecimal():
        raise UsageError(f"--rows {given}: this is no number of rows", "pass a number, such as 50, or all")
    return int(given)


def check_file(option: str, name: str | None) -> None:
    """Refuse a file that cannot be written, before the work of many seconds for it."""
    if name is None:
        return
    file = Path(name)
    if not name or file.is_dir():
        raise UsageError(f"{option} {name or 'is empty'}: this is no file", f"name a file: {option} FILE")
    if not file.parent.is_dir():
        raise UsageError(f"{option} {file}: there is no folder {file.parent}", f"create it: mkdir -p {file.parent}")


class Told:
    """Context manager: the progress on stderr, as one line on a terminal, else as a line now and then."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.begun = self.before = time.monotonic()
        self.first = -1
        self.last = (0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        step("")
        if kind is KeyboardInterrupt:
            done, total = self.last
            print(f"nki: {done} of {total} {self.what} are done; the same command goes on from there", file=sys.stderr)

    def __call__(self, done: int, total: int) -> None:
        self.last = done, total
        now = time.monotonic()
        if self.first < 0:
            self.first = done
        line = f"{done}/{total} {self.what}"
        if done > self.first:
            left = (now - self.begun) / (done - self.first) * (total - done)
            line += f", about {left:.0f} s left"
        step(line if done < total else "")
        if now - self.before >= _PATIENCE and not _is_terminal():
            self.before = now
            print(f"nki: {line}", file=sys.stderr, flush=True)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]  # with `2>&-`


@contextlib.contextmanager
def cluster(given: str | None) -> Generator[Executor | None]:
    """The executor of a Dask cluster: at an address, or of a number of local processes; None without either."""
    if given is None:
        yield None
        return
    distributed = needed("distributed", "distributed", "--dask", extra="")
    if given.isdecimal() and not int(given):
        raise UsageError("--dask 0: a cluster has at least one worker", "pass a number of workers, or an address")
    with contextlib.ExitStack() as stack:
        try:
            address: Any = given
            if given.isdecimal():
                address = distributed.LocalCluster(
                    n_workers=int(given), threads_per_worker=1, processes=True, dashboard_address=None
                )
                stack.enter_context(address)
            client = stack.enter_context(distributed.Client(address, timeout="10s"))
        except (OSError, ValueError) as error:
            raise UsageError(
                f"--dask {given}: there is no scheduler: {error}",
                "start one with `dask scheduler`, and pass the address that it prints, such as tcp://host:8786",
            ) from None
        yield client.get_executor()


def _write(table: Table, options: argparse.Namespace) -> list[str]:
    lines: list[str] = []
    for option, name, write in (
        ("--html", options.html, table.to_html),
        ("--parquet", options.parquet, table.to_parquet),
    ):
        if name:
            try:
                lines.append(f"{write(name)}: {len(table)} rows")
            except ProfileFileError as error:
                raise UsageError(f"{option} {error.message}", error.fix) from None
    return lines


def _document(table: Table) -> Sweep:
    failures: list[Failing] = [
        {
            "status": each.status, "code": each.code, "message": each.message, "file": each.file, "line": each.line,
            "points": len(each.rows), "first": each.rows[0]["arguments"],
        }
        for each in table.failures
    ]  # fmt: skip
    return {
        **stamp(),
        "kernel": table.kernel,
        "judged": table.judged,
        "points": len(table),
        "failed": table.failed,
        "failures": failures,
        "rows": list(table.rows),
    }
