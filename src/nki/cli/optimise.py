"""``nki optimise``: edits a kernel so that it is faster and computes the same."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from nki.base.usage import UsageError
from nki.base.warning import collecting
from nki.cli.output.documents import Optimise
from nki.cli.output.findings import warnings
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.cli.terminal_progress import step, steps
from nki.ir.program import Program
from nki.optimising.outcome import Optimised
from nki.optimising.record import record
from nki.optimising.search import optimise
from nki.profiling.shapes import ShapeDtype
from nki.workload.arguments import TensorArgument
from nki.workload.job import Work, prepared


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki optimise``. Only ``--write`` changes a file."""
    _check(options)
    # What a kernel prints while it is specialised must not end up inside the JSON.
    with aside() if options.json else contextlib.nullcontext(), collecting() as warned, steps():
        found = _optimised(options)
    written = bool(options.write and found.kept)
    if written:
        found.write()
    if options.json:
        document: Optimise = {**stamp(), **record(found, written=written), "warnings": warnings(warned)}
        print_document(document)
        return 0
    print(found)
    if found.kept:
        print("\nthe file is written" if written else "\nno file is written: --write does that")
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed}: seeds are not negative")
    if not options.seconds > 0:
        raise UsageError(f"--seconds {options.seconds:g}: a search takes some time", "pass a number, such as 60")
    if options.error is not None and not 0 < options.error < float("inf"):
        raise UsageError(f"--error {options.error:g}: this is no positive number", "pass a number, such as 1e-2")


def _optimised(options: argparse.Namespace) -> Optimised:
    with prepared(options.kernel, options.arg, options.target, options.cores, options.grid) as work:
        if isinstance(work.kernel, Program):
            raise UsageError(f"{options.kernel} has no source to edit", "pass FILE.py:KERNEL")
        search = optimise(
            work.kernel,
            work.target,
            error=options.error,
            seconds=options.seconds,
            seed=options.seed,
            progress=step,
        )
        return search(**_arguments(work, options.seed))


def _arguments(work: Work, seed: int) -> dict[str, Any]:
    """The arguments; of a tensor the shape, and where the user gives numbers, the numbers."""
    found = dict(work.arguments)
    tensors = [name for name, value in found.items() if isinstance(value, TensorArgument)]
    for number, name in enumerate(tensors):
        tensor: TensorArgument = found[name]
        found[name] = tensor.array(seed, number) if tensor.given else ShapeDtype(tensor.shape, tensor.dtype.dtype)
    return found
