"""``nki accuracy``: where the digits of a kernel's results go, and where two kernels part."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Generator

from nki.base.usage import UsageError
from nki.base.warning import collecting
from nki.cli.output.documents import AccuracyDocument, PartingDocument
from nki.cli.output.findings import warnings
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.cli.profile_options import check_output, lines_of, named_option, reads
from nki.cli.terminal_progress import step, steps
from nki.rounding import run, text
from nki.rounding.parting import Parting, compared
from nki.rounding.record import parting_record, record
from nki.rounding.report import Accuracy
from nki.workload.job import Work, prepared


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki accuracy``: 1 if ``--bisect`` finds that the kernels part."""
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed}: seeds are not negative")
    most = lines_of(options.lines)
    check_output("--html", options.html, reads(options.arg, options.kernel))
    if options.bisect is not None and options.html:
        raise UsageError("--bisect and --html do not go together", "ask for one after the other")
    # What a kernel prints while it is specialised must not end up inside the JSON.
    with aside() if options.json else contextlib.nullcontext(), collecting() as warned, steps():
        found = _measured(options) if options.bisect is None else _compared(options)
    if isinstance(found, Parting):
        parting: PartingDocument = {**stamp(), **parting_record(found), "warnings": warnings(warned)}
        print_document(parting) if options.json else print(found)
        return 0 if found.is_same else 1
    written: list[str] = []
    if options.html:
        with named_option("--html"):
            written.append(f"{found.to_html(options.html)}: the report for a browser")
    if options.json:
        document: AccuracyDocument = {**stamp(), **record(found), "warnings": warnings(warned)}
        print_document(document)
    else:
        print("\n\n".join([text.report(found, most), *written]))
    return 0


def _prepared(source: str, options: argparse.Namespace) -> contextlib.AbstractContextManager[Work]:
    return prepared(source, options.arg, options.target, options.cores, options.grid)


def _measured(options: argparse.Namespace) -> Accuracy:
    with _prepared(options.kernel, options) as work:
        step(f"running {work.name} beside float64")
        return run.measured(work.compile(run.STOP), work.arrays(options.seed), work.target)


def _compared(options: argparse.Namespace) -> Parting:
    """The kernel beside the one of ``--bisect``, which has the arguments of the first one."""
    with _prepared(options.kernel, options) as work, _other(options) as other:
        step(f"running {work.name} and {other.name} beside float64")
        return compared(work.compile(run.STOP), other.compile(run.STOP), work.arrays(options.seed))


@contextlib.contextmanager
def _other(options: argparse.Namespace) -> Generator[Work]:
    """Context manager: the kernel of ``--bisect``; a mistake of the command about it says so."""
    try:
        with _prepared(options.bisect, options) as other:
            yield other
    except UsageError as error:
        fix = f"{error.fix}; both kernels get the same --arg" if error.fix else ""
        raise UsageError(f"--bisect {options.bisect}: {error.message}", fix) from None
