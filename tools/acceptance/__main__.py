"""``python -m tools.acceptance LIBRARY``: run the tests of a checkout of nki-library and write one table."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from tools.acceptance import causes, journal, library, resident, table, workers
from tools.acceptance.library import LibraryError, Test


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect, run what no record holds, and write the table; the number of the exit: 1 if a test failed."""
    options = _parser().parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.nullcontext() if options.table else _alone(options.out):
            return _worked(options, options.library.resolve(), options.out.resolve())
    except LibraryError as error:
        print(error, file=sys.stderr)
        return 2


def _worked(options: argparse.Namespace, tree: Path, out: Path) -> int:
    ours = library.commit_of(library.ROOT, "src/nki")
    name = {"library": library.commit_of(tree, "src", "test"), "ours": ours}
    tests = library.collected(tree, out, name["library"], options.platform or library.PLATFORMS)
    chosen = [test for test in tests if options.only in test.id]
    if options.sample is not None:
        chosen = library.sample(chosen, options.sample, options.seed)
    memory = options.memory << 30 if options.memory else resident.available() * 4 // 5
    limits = workers.Limits(options.limit, options.simulate, memory, options.jobs)
    plan = workers.Plan(tree, out, name, limits, options.through.split())
    counted = None if options.any_commit else ours
    done = _done(plan, counted)
    settled = {
        key
        for key, record in done.items()
        if record["outcome"] != "failed" or (record["ours"] == ours and not options.again)
    }
    left = [test for test in chosen if (test.platform, test.id) not in settled]
    if not options.table:
        left.sort(key=lambda test: (test.size_class, not test.fast))
        workers.run(plan, left, _progress(plan, chosen, counted))
        print(file=sys.stderr)
    wanted = {(test.platform, test.id) for test in chosen}
    records = [record for key, record in _done(plan, counted).items() if key in wanted]
    name["ours"] = ", ".join(sorted({record["ours"] for record in records})) or ours
    result = table.Table(tests, records, name | {"date": time.strftime("%Y-%m-%d", time.gmtime())})
    (out / "table.json").write_text(result.as_json(), encoding="utf-8")
    (out / "table.md").write_text(result.as_markdown(), encoding="utf-8")
    print(result.summary())
    print(f"{out / 'table.md'}, table.json, journal.jsonl")
    return int(any(record["outcome"] == "failed" for record in records))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools.acceptance", description=__doc__)
    parser.add_argument("library", type=Path, help="a checkout of nki-library")
    parser.add_argument("--sample", type=int, help="tests to draw, over all kernels, fast and not, and platforms")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--only", default="", metavar="TEXT", help="tests with this text in their ids")
    parser.add_argument("--platform", action="append", choices=library.PLATFORMS, help="default: both")
    parser.add_argument("--out", type=Path, default=Path("build/acceptance"), help="folder of journal and table")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--memory", type=int, metavar="GiB", help="for all of them; default: 4/5 of what is free")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="for each phase of a test")
    parser.add_argument("--simulate", type=float, default=60, metavar="SECONDS", help="no longer launch is simulated")
    parser.add_argument("--through", default="", metavar="COMMAND", help="start processes by it: 'nice -n 10'")
    parser.add_argument(
        "--any-commit", action="store_true", help="tests that passed at another commit do not run again"
    )
    parser.add_argument("--again", action="store_true", help="tests that failed run again, at this commit, too")
    parser.add_argument("--table", action="store_true", help="run nothing: only write the table")
    return parser


@contextlib.contextmanager
def _alone(out: Path) -> Generator[None]:
    """No other process runs tests into ``out`` in this block. Raises :class:`LibraryError` if one does."""
    with (out / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise LibraryError(f"another run writes to {out}") from None
        yield


def _done(plan: workers.Plan, ours: str | None) -> dict[tuple[str, str], journal.Record]:
    found = journal.finished(plan.journal, plan.name["library"], ours)
    return {key: record for key, record in found.items() if record["outcome"] != causes.ALONE}


def _progress(plan: workers.Plan, chosen: Sequence[Test], ours: str | None) -> Callable[[], None]:
    """A line for standard error: every second on a terminal, every minute elsewhere."""
    wanted = {(test.platform, test.id) for test in chosen}
    begun = last = time.monotonic()
    size = -1
    is_terminal = sys.stderr.isatty()

    def tell() -> None:
        nonlocal last, size
        now = time.monotonic()
        if now - last < (1 if is_terminal else 60):
            return
        last = now
        octets = plan.journal.stat().st_size if plan.journal.exists() else 0
        if octets == size:
            return
        size = octets
        done = [record for key, record in _done(plan, ours).items() if key in wanted]
        failed = sum(record["outcome"] == "failed" for record in done)
        line = f"{len(done)} of {len(wanted)} tests, {failed} failed, {(now - begun) / 60:.0f} min"
        print(f"\r{line}" if is_terminal else line, end="" if is_terminal else "\n", file=sys.stderr, flush=True)

    return tell


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # on the way out workers end, too
    sys.exit(main())
