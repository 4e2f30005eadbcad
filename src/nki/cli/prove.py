"""``nki prove``: says if two kernels are the same function over the real numbers."""

from __future__ import annotations

import argparse
import contextlib
from typing import Any

from nki.base.usage import UsageError
from nki.base.warning import collecting
from nki.cli.output.documents import Prove
from nki.cli.output.findings import warnings
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.jit import Kernel
from nki.profiling.shapes import ShapeDtype
from nki.proofs.prove import prove
from nki.proofs.record import record
from nki.workload import arguments as argument
from nki.workload.arguments import TensorArgument
from nki.workload.job import target_of
from nki.workload.load_kernel import opened_step, with_kernels

EXIT_CODES = {"equal": 0, "different": 1, "undecided": 3}


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki prove``: 0 for equal, 1 for different, 3 for undecided."""
    if options.seconds <= 0:
        raise UsageError(
            f"--seconds {options.seconds:g}: a search takes some time", "pass a number above 0, such as 20"
        )
    if not options.limit > 0:
        raise UsageError(
            f"--limit {options.limit:g}: a proof takes some time", "pass a number above 0, or leave it out"
        )
    args, kwargs = _arguments(options.arg)
    # What a kernel prints while it is specialised must not end up inside the JSON.
    with (
        aside() if options.json else contextlib.nullcontext(),
        collecting() as warned,
        opened_step(options.old) as old,
        opened_step(options.new) as new,
    ):
        if options.grid is not None:
            old, new = _on_grid(old, new, options.grid)
        proof = prove(
            old, new, target=target_of(options.target), seed=options.seed, seconds=options.seconds, limit=options.limit
        )
        found = proof(*args, **kwargs)
    if options.json:
        document: Prove = {**stamp(), **record(found), "warnings": warnings(warned)}
        print_document(document)
    else:
        print(found)
    return EXIT_CODES[found.verdict]


def _on_grid(old: Any, new: Any, grid: tuple[int, ...]) -> tuple[Any, Any]:
    """Both sides, the kernels of Beta 1 among them launched on ``grid``; there has to be one."""
    sides = [with_kernels(each) for each in (old, new)]
    older = [isinstance(each, Kernel) and type(each) is not Kernel for each in sides]
    if not any(older):
        raise UsageError("--grid: neither is a kernel of Beta 1", "leave out --grid")
    one, other = (each[grid] if is_older else each for each, is_older in zip(sides, older, strict=True))
    return one, other


def _arguments(texts: list[str]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and named arguments; of a tensor the shape, and of integers that are given the numbers."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for number, text in enumerate(texts):
        name, value = argument.parse(text)
        if isinstance(value, TensorArgument):
            is_range = value.dtype.is_integer and value.given
            value = value.array(0, number) if is_range else ShapeDtype(value.shape, value.dtype.dtype)
        if name:
            kwargs[name] = value
        else:
            args.append(value)
    return args, kwargs
