"""The command ``nki``: run, check, dump and explain kernels, and look after those that are kept.

Exit codes: 0 done; 1 the kernel, or a file that should hold one, is wrong (an ``NkiError``, printed without a Python
traceback, or the findings of a check); 2 the command is wrong. Any other exception is a bug, here or in the user's own
Python, and is not hidden.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from nki import target as targets
from nki.base.errors import NkiError
from nki.base.usage import UsageError
from nki.base.version import version
from nki.cli import arguments as argument
from nki.cli import cache, check, dump, explain, load_kernel, run
from nki.compiler.pipeline import STAGES
from nki.frontend.errors import KernelErrors

__all__ = ["main"]


_RUN = "Compile a kernel for the given arguments, run it, print what came out and how long it took."
_DUMP = (
    "Print a kernel after a stage as text, its LLVM IR, its assembly or the map of its memory; or write its artifact."
)
_EXPLAIN = "Say what an error code, a rule, an instruction or an operator means, from the declarations themselves."
_CHECK = (
    "Say what is wrong with the kernels of Python files and with what they call. Modules are imported; kernels are not "
    "run, except by --run."
)
_CACHE = "List the compiled kernels that are kept on disk, the one used last first, or remove them."


class _Parser(argparse.ArgumentParser):
    """Raises its errors, so that they are reported like all others; takes options by their whole names."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the command in ``arguments`` (None: the process's own); the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser().parse_args(given)
        code: int = options.command(options)
        sys.stdout.flush()
        return code
    except UsageError as mistake:
        fix = f"\n  fix: {mistake.fix}" if mistake.fix else ""
        _complain(given, {"code": "usage", "message": mistake.message, "fix": mistake.fix}, f"nki: {mistake}{fix}")
        return 2
    except NkiError as error:
        _complain(given, described(error), str(error))
        return 1
    except BrokenPipeError:  # the reader (head, a pager) has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def described(error: NkiError) -> dict[str, Any]:
    """An error as JSON values; several mistakes of one kernel are listed in ``errors``."""
    span = error.span
    result: dict[str, Any] = {
        "code": error.code,
        "message": error.message,
        "file": span.file if span else None,
        "line": span.line if span else None,
        "fix": error.fix,
        "rule": error.rule,
        "version": version(),
    }
    if isinstance(error, KernelErrors):
        result["errors"] = [described(part) for part in error.errors]
    return result


def _complain(given: list[str], values: dict[str, Any], text: str) -> None:
    """JSON goes where the result would have gone, text to stderr."""
    if "--json" in given:
        print(json.dumps(values))
    else:
        print(text, file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="nki", description="Run, inspect and explain NKI kernels on this machine.")
    parser.add_argument("--version", action="version", version=f"open-nki {version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    running = commands.add_parser("run", help="compile a kernel, run it and time it", description=_RUN)
    running.set_defaults(command=run.command)
    _add_kernel(running)
    running.add_argument("--seed", type=int, default=0, help="of random arguments (default 0)")
    running.add_argument("--simulate", action="store_true", help="run eagerly in NumPy, without native code")
    running.add_argument(
        "--check", action="store_true", help="before, look for hazards in the reference executor, and compare its bits"
    )
    running.add_argument(
        "--repeat", type=int, metavar="N", help=f"runs to take the median of (default {run.RUNS}; 1 with --simulate)"
    )
    running.add_argument("--save", metavar="FILE", help="write the results to a .npy or .npz file")
    running.add_argument("--json", action="store_true", help="print one JSON object; errors too")

    _add_check(commands)
    _add_dump(commands)
    explaining = commands.add_parser(
        "explain", help="what an error code, rule, instruction or operator means", description=_EXPLAIN
    )
    explaining.set_defaults(command=explain.command)
    explaining.add_argument(
        "topic", nargs="?", default="", help="NKI-SH001, TL02, tensor_tensor, nl.exp; none lists all"
    )

    keeping = commands.add_parser("cache", help="the compiled kernels that are kept on disk", description=_CACHE)
    keeping.set_defaults(command=cache.command)
    keeping.add_argument("--clear", nargs="?", const="", metavar="KERNEL", help="remove those of KERNEL, or all")
    keeping.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_check(commands: Any) -> None:
    checking = commands.add_parser("check", help="what is wrong with the kernels of a file", description=_CHECK)
    checking.set_defaults(command=check.command)
    checking.add_argument("files", nargs="+", metavar="FILE.py")
    checking.add_argument(
        "--run", action="store_true", help="then run the kernel, FILE.py:NAME, in the simulator, which finds hazards"
    )
    _add_arguments(checking)
    checking.add_argument("--seed", type=int, default=0, help="of random arguments (default 0)")
    checking.add_argument("--all", action="store_true", help="all functions and methods, not only kernels")
    checking.add_argument("--strict", action="store_true", help="warnings make the exit code 1, too")
    checking.add_argument("--json", action="store_true", help="print one JSON object")


def _add_dump(commands: Any) -> None:
    dumping = commands.add_parser("dump", help="print a kernel between two stages", description=_DUMP)
    dumping.set_defaults(command=dump.command)
    _add_kernel(dumping)
    forms = dumping.add_mutually_exclusive_group()
    stages = ["specialise", *(stage.name for stage in STAGES)]
    forms.add_argument(
        "--after", choices=stages, metavar="STAGE", help=f"one of {', '.join(stages)} (default: the last)"
    )
    forms.add_argument("--loops", action="store_true", help="the loop IR of its native routines")
    forms.add_argument("--llvm", action="store_true", help="the optimised LLVM IR of its native routines")
    forms.add_argument("--asm", action="store_true", help="their assembly for this machine")
    forms.add_argument("--artifact", metavar="FILE.klir", help="write the compiled kernel to a file")
    forms.add_argument(
        "--memory",
        nargs="?",
        const="",
        metavar="FILE",
        help="draw what lies where in SBUF and PSUM, over time: as text, or into a .svg or .html file",
    )
    dumping.add_argument("--queues", action="store_true", help="what each engine and DMA ring runs and waits for")
    dumping.add_argument("--in-order", action="store_true", help="schedule without moving instructions")
    dumping.add_argument("--lines", action="store_true", help="show source lines above their instructions")


def _add_kernel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="KERNEL", help=load_kernel.FORMS)
    _add_arguments(parser)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    known = ", ".join(target.name for target in targets.GENERATIONS)
    parser.add_argument(
        "--arg", action="append", default=[], metavar="ARG", help=f"the kernel's arguments, in order: {argument.FORMS}"
    )
    parser.add_argument("--target", metavar="NAME", help=f"{known} (default: the kernel's, else the environment's)")
    parser.add_argument("--cores", type=int, metavar="N", help="launch it as kernel[N] (default: as the file has it)")
