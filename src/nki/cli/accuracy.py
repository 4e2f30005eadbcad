"""``nki accuracy``: where the digits of a kernel's results go, and where two kernels part."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Generator

from nki.base.usage import UsageError
from nki.base.warning import Warned, collecting
from nki.cli.output.documents import AccuracyDocument, PartingDocument
from nki.cli.output.findings import warnings
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.cli.profile_options import check_output, lines_of, named_option, reads
from nki.cli.terminal_progress import step
from nki.rounding import run, text
from nki.rounding.parting import compared
from nki.rounding.record import parting_record, record
from nki.workload.job import Work, prepared


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki accuracy``: 1 if ``--bisect`` finds that the kernels part."""
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed}: seeds are not negative")
    most = lines_of(options.lines)
    check_output("--html", options.html, reads(options.arg, options.kernel))
    if options.bisect is not None and options.html:
        raise UsageError("--bisect and --html do not go together", "ask for one after the other")
    given = options.kernel, options.arg, options.target, options.cores, options.grid
    # What a kernel prints while it is specialised must not end up inside the JSON.
    quiet = aside() if options.json else contextlib.nullcontext()
    with quiet, collecting() as warned, _progress(), prepared(*given) as work:
        if options.bisect is not None:
            return _bisect(work, options, warned)
        step(f"running {work.name} beside float64")
        found = run.measured(work.compile(run.STOP), work.arrays(options.seed), work.target)
    step("")
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


def _bisect(work: Work, options: argparse.Namespace, warned: list[Warned]) -> int:
    """Compare with the kernel of ``--bisect``, which has the arguments of the first one."""
    try:
        with prepared(options.bisect, options.arg, options.target, options.cores, options.grid) as other:
            step(f"running {work.name} and {other.name} beside float64")
            found = compared(work.compile(run.STOP), other.compile(run.STOP), work.arrays(options.seed))
    except UsageError as error:
        fix = f"{error.fix}; both kernels get the same --arg" if error.fix else ""
        raise UsageError(f"--bisect {options.bisect}: {error.message}", fix) from None
    step("")
    if options.json:
        document: PartingDocument = {**stamp(), **parting_record(found), "warnings": warnings(warned)}
        print_document(document)
    else:
        print(found)
    return 0 if found.is_same else 1


@contextlib.contextmanager
def _progress() -> Generator[None]:
    """Context manager: the line about what goes on is gone at its end."""
    try:
        yield
    finally:
        step("")
