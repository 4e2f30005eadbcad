"""The command ``nki``: run, profile, check, dump and explain kernels, and list or remove those on disk.

Exit codes: 0 done; 1 the kernel, or a file that should hold one, is wrong (an ``NkiError``, printed without a Python
traceback, or the findings of a check); 2 the command is wrong, or its output cannot be written; 130 after Ctrl-C. Any
other exception is a bug, here or in the user's own Python, and is not hidden.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from nki import target as targets
from nki.base.errors import NkiError
from nki.base.locks import imported
from nki.base.usage import UsageError
from nki.base.version import version
from nki.base.warning import collecting
from nki.cli import profile_arguments, terminal_progress, verify_options, wrong_options
from nki.cli.output import streams
from nki.cli.output.findings import failure
from nki.cli.output.mistakes import complaint, exit_code
from nki.cli.output.printed import print_document
from nki.compilation.launch_errors import BugReports
from nki.compilation.pipeline import SPECIALISE, STAGES
from nki.language.releases import RELEASES
from nki.workload import arguments as argument
from nki.workload import load_kernel
from nki.workload.job import released

__all__ = ["main"]


_RUN = "Compile a kernel for the given arguments and run it. Print its inputs, its results and the time."
_PROFILE = (
    "Predict how long a kernel takes on the device, and where the time goes. Shapes are enough, unless a number of "
    "iterations depends on data; nothing runs otherwise."
)
_ACCURACY = (
    "Run a kernel in the simulator and beside it without rounding, in float64. Print the error of each result, the "
    "lines that it comes from, and what storing tiles in float32 would change: the error, and the predicted time."
)
_OPTIMISE = (
    "Try edits of a kernel's file that carry out the profile's advice. An edit stays if it is proved that the kernel "
    "computes the same function, its results are as accurate, and the predicted time falls by more than is uncertain. "
    "Print what was tried, and the diff."
)
_DUMP = "Print a kernel after a stage, its loop IR, LLVM IR or assembly, or a map of its memory; or write its artifact."
_EXPLAIN = "Explain an error code, a rule, an instruction, or any public name. The text comes from the declarations."
_CHECK = (
    "Report errors and warnings in the kernels of Python files and in all functions that they call. The command "
    "imports the files, compiles each kernel for the arguments that the file shows, and runs none, except with --run."
)
_INFO = (
    "List what a model file (.nkix, of nki.export) holds: inputs, outputs, kernels, versions, size. Check its digests. "
    "Of an HLO module (text or .hlo.pb), list the calls of kernels, with op_type and op_name."
)
_MIGRATE = (
    "Rewrite kernels of NKI Beta 1 (neuronxcc.nki) and of NKI 0.2 to 0.6 for the present NKI, run both versions on the "
    "same data, and prove that they are the same function. What no rule "
    "carries over stays, below a comment `# TODO(nki-migrate): …`; the exit code is then 1."
)
_SWEEP = (
    "Check, compile, run and time a kernel at every point of a space: shapes, dtypes, constants, targets, releases, "
    "seeds. Print which points fail, where, and how slow the others are. Finished points are kept, and not run again."
)
_TUNE = (
    "Find the fastest legal configuration of a kernel in a space, by predicted or by native time, and check it on "
    "fresh data. Say which others may be as fast."
)
_PROVE = (
    "Are two kernels, or a kernel and a function of NumPy, PyTorch or JAX, the same function over the real numbers, "
    "for all inputs of these shapes? Exit with 0 if they are, with 1 if an input shows that they are not, else with 3."
)
_CACHE = "List the compiled kernels on disk, most recently used first, or remove them."


_UNWRITABLE: Final = (errno.EBADF, errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT)
"""Errors of a write to the standard output that is a full disk, a closed descriptor or a lost terminal."""
INTERRUPTED: Final = 130
"""Exit code after Ctrl-C, as shells report a program that SIGINT ended."""


class _Parser(argparse.ArgumentParser):
    """A parser that raises its errors, so that ``main`` reports them like all others; options need their full names."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise UsageError(*wrong_options.explained(message, self))

    def parse_known_args(  # pyright: ignore[reportIncompatibleMethodOverride]  # its overloads say less than it takes
        self, args: Any = None, namespace: Any = None
    ) -> Any:
        """As of argparse, but a subcommand itself refuses the options that it does not know, and suggests its own."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            raise UsageError(*wrong_options.unknown(rest, self))
        return found, rest


class _PrintVersion(argparse.Action):
    """The option ``--version``: its text takes as long to find as many a command to run."""

    def __init__(self, option_strings: Sequence[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"open-nki {version()}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command in ``arguments`` (None: the process's own); the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]  # with `>&-`
        print("nki: the standard output is closed", file=sys.stderr)
        return 2
    streams.make_lenient(sys.stdout)
    streams.make_lenient(sys.stderr)
    try:
        try:
            return _carried_out(words)
        finally:
            sys.stdout.flush()
            if arguments is None and sys.stdout is sys.__stdout__:
                streams.close()
    except KeyboardInterrupt:
        terminal_progress.step("")
        print("nki: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, a pager) has closed the pipe
        _discard_output()
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        _discard_output()
        print(f"nki: the output cannot be written: {error.strerror}", file=sys.stderr)
        return 2


def _discard_output() -> None:
    """Let what is still in the buffer of the standard output go nowhere, so that Python can end in peace."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _carried_out(words: list[str]) -> int:
    with collecting() as warned:
        try:
            options = _parser().parse_args(words)
            with BugReports(), released(getattr(options, "nki", None)):
                code: int = imported(options.module).command(options)
            return code
        except (NkiError, UsageError) as error:
            if "--json" in words:
                print_document(failure(error, warned))
            else:
                print(complaint(error), file=sys.stderr)
            return exit_code(error)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="nki", description="Run, inspect and explain NKI kernels on this machine.")
    parser.add_argument("--version", action=_PrintVersion, help="show program's version number and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    running = commands.add_parser("run", help="compile a kernel, run it and time it", description=_RUN)
    running.set_defaults(module="nki.cli.run")
    _add_kernel(running)
    running.add_argument("--seed", type=int, default=0, help="seed of random arguments (default 0)")
    running.add_argument("--simulate", action="store_true", help="run eagerly in NumPy, not as native code")
    running.add_argument(
        "--check", action="store_true", help="first run in the reference executor, find hazards, then compare the bits"
    )
    running.add_argument(
        "--repeat",
        type=int,
        metavar="N",
        help=f"number of runs; the median is printed (default {argument.RUNS}; 1 with --simulate)",
    )
    running.add_argument(
        "--where", action="store_true", help="print the time on this host by source line and by native routine"
    )
    running.add_argument("--save", metavar="FILE", help="save the results to a .npy or .npz file")
    running.add_argument("--json", action="store_true", help="print one JSON object, also for an error")

    _add_profile(commands)
    _add_prove(commands)
    _add_accuracy(commands)
    _add_optimise(commands)
    verify_options.add(commands)
    _add_check(commands)
    _add_sweep(commands)
    _add_tune(commands)
    _add_migrate(commands)
    _add_dump(commands)
    explaining = commands.add_parser(
        "explain", help="explain an error code, a rule, an instruction, or any public name", description=_EXPLAIN
    )
    explaining.set_defaults(module="nki.cli.explain")
    explaining.add_argument(
        "topic",
        nargs="?",
        default="",
        help="such as NKI-SH001, TL02, tensor_tensor, nl.exp, t.reshape, trn2; none: list all",
    )

    explaining.add_argument("--json", action="store_true", help="print one JSON object, also for an error")

    keeping = commands.add_parser("cache", help="list or remove the compiled kernels on disk", description=_CACHE)
    keeping.set_defaults(module="nki.cli.cache")
    keeping.add_argument(
        "--clear", nargs="?", const="", metavar="KERNEL", help="remove the entries of KERNEL, or all entries"
    )
    keeping.add_argument("--json", action="store_true", help="print a JSON list")

    listing = commands.add_parser("info", help="list what a model file holds", description=_INFO)
    listing.set_defaults(module="nki.cli.info")
    listing.add_argument("file", metavar="FILE.nkix")
    listing.add_argument("--json", action="store_true", help="print one JSON object, also for an error")
    return parser


def _add_profile(commands: Any) -> None:
    profiling = commands.add_parser(
        "profile", help="predict the time of a kernel on the device, and where it goes", description=_PROFILE
    )
    profiling.set_defaults(module="nki.cli.profile")
    _add_kernel(profiling, targets_action="append")
    profile_arguments.add_to(profiling)


def _add_prove(commands: Any) -> None:
    proving = commands.add_parser("prove", help="prove that two kernels compute the same", description=_PROVE)
    proving.set_defaults(module="nki.cli.prove")
    proving.add_argument("old", metavar="OLD", help="FILE.py:NAME, a kernel or a function")
    proving.add_argument("new", metavar="NEW", help="FILE.py:NAME, a kernel or a function")
    _add_arguments(proving)
    proving.add_argument("--seed", type=int, metavar="N", help="seed of the random fields (default: a fresh one)")
    proving.add_argument(
        "--seconds", type=float, default=20.0, metavar="S", help="limit on the search of an input (default 20)"
    )
    proving.add_argument(
        "--limit", type=float, default=float("inf"), metavar="S", help="limit on the proof itself (default: none)"
    )
    proving.add_argument("--json", action="store_true", help="print one JSON object, also for an error")


def _add_accuracy(commands: Any) -> None:
    measuring = commands.add_parser(
        "accuracy", help="show which lines of a kernel lose the digits of its results", description=_ACCURACY
    )
    measuring.set_defaults(module="nki.cli.accuracy")
    _add_kernel(measuring)
    measuring.add_argument("--seed", type=int, default=0, help="seed of random arguments (default 0)")
    measuring.add_argument(
        "--bisect",
        metavar="KERNEL",
        help="run another kernel on the same data, and name the first line at which the two part by more than rounding "
        "explains; the exit code is then 1",
    )
    measuring.add_argument(
        "--lines", metavar="N|all", help="number of source lines in the text (default 8); JSON and the page have all"
    )
    measuring.add_argument("--html", metavar="FILE", help="write the report for a browser, one file")
    measuring.add_argument("--json", action="store_true", help="print one JSON object, also for an error")


def _add_optimise(commands: Any) -> None:
    optimising = commands.add_parser(
        "optimise", help="edit a kernel so that it is faster and computes the same", description=_OPTIMISE
    )
    optimising.set_defaults(module="nki.cli.optimise")
    _add_kernel(optimising)
    optimising.add_argument("--write", action="store_true", help="change the file; without it the diff is printed only")
    optimising.add_argument(
        "--error",
        type=float,
        metavar="E",
        help="relative error that each result may have (default: twice as much as now, or the resolution of its dtype)",
    )
    optimising.add_argument(
        "--seconds", type=float, default=120.0, metavar="S", help="try no other edit after this time (default 120)"
    )
    optimising.add_argument("--seed", type=int, default=0, help="seed of the numbers that are compared (default 0)")
    optimising.add_argument("--json", action="store_true", help="print one JSON object, also for an error")


def _add_check(commands: Any) -> None:
    checking = commands.add_parser(
        "check", help="report errors and warnings in kernels of Python files", description=_CHECK
    )
    checking.set_defaults(module="nki.cli.check")
    checking.add_argument("files", nargs="+", metavar="FILE.py|FILE.py:NAME|FOLDER")
    checking.add_argument(
        "--run", action="store_true", help="then run the kernel FILE.py:NAME in the simulator, which finds hazards"
    )
    _add_arguments(checking)
    checking.add_argument("--seed", type=int, default=0, help="seed of random arguments (default 0)")
    checking.add_argument("--all", action="store_true", help="check every function and method, not only kernels")
    checking.add_argument(
        "--nki",
        metavar="RELEASE",
        choices=RELEASES.versions,
        help="check under the rules of a release of NKI, such as 0.6 (default: NKI_VERSION, else all releases)",
    )
    checking.add_argument("--strict", action="store_true", help="exit with 1 also for warnings")
    checking.add_argument("--json", action="store_true", help="print one JSON object")


def _add_sweep(commands: Any) -> None:
    sweeping = commands.add_parser("sweep", help="check, run and time a kernel over a space", description=_SWEEP)
    sweeping.set_defaults(module="nki.cli.sweep")
    _add_space(sweeping)
    sweeping.add_argument("--rows", metavar="N|all", help="rows of the text, the slowest first (default 20)")
    sweeping.add_argument("--html", metavar="FILE", help="write the table for a browser, one file")
    sweeping.add_argument("--parquet", metavar="FILE", help="write the table as a Parquet file")
    sweeping.add_argument("--json", action="store_true", help="print one JSON object with every row")


def _add_tune(commands: Any) -> None:
    tuning = commands.add_parser("tune", help="find the fastest configuration of a kernel", description=_TUNE)
    tuning.set_defaults(module="nki.cli.tune")
    _add_space(tuning)
    tuning.add_argument(
        "--by",
        choices=("predicted", "native"),
        default="predicted",
        help="the time to minimise: the model's (default), or native code's on this machine",
    )
    tuning.add_argument(
        "--trials", type=int, metavar="N", help="search with N configurations (default: all of up to 2000, else 400)"
    )
    tuning.add_argument("--seed", type=int, default=0, help="seed of the search (default 0)")
    tuning.add_argument("--json", action="store_true", help="print one JSON object, also for an error")


def _add_space(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="KERNEL", help="FILE.py:KERNEL")
    parser.add_argument("--space", required=True, metavar="FILE.toml", help="what varies (docs/sweep.md)")
    parser.add_argument(
        "--reference",
        metavar="NAME",
        help="NAME in the kernel's file, FILE.py:NAME or package.module.NAME: what is right",
    )
    parser.add_argument(
        "--target", action="append", metavar="NAME", help="in place of the space's targets; again for more"
    )
    parser.add_argument("--seeds", type=int, metavar="N", help="N seeds, from 0, in place of the space's")
    parser.add_argument("--out", metavar="FOLDER", help="folder for finished points (default: in the cache folder)")
    parser.add_argument(
        "--processes", type=int, metavar="N", help="processes on this machine (default: its processors)"
    )
    parser.add_argument(
        "--dask", metavar="N|ADDRESS", help="run on a Dask cluster: of N processes here, or of the scheduler at ADDRESS"
    )


def _add_migrate(commands: Any) -> None:
    migrating = commands.add_parser("migrate", help="rewrite kernels of older NKI", description=_MIGRATE)
    migrating.set_defaults(module="nki.cli.migrate")
    migrating.add_argument("files", nargs="+", metavar="FILE.py|FILE.py:NAME")
    migrating.add_argument("--diff", action="store_true", help="print the difference, not the new file")
    migrating.add_argument("--write", action="store_true", help="replace the file")
    migrating.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="ARG",
        help=f"an argument of the kernel for the runs, in order (default: the file's own calls): {argument.FORMS}",
    )
    migrating.add_argument(
        "--to",
        choices=[release.version for release in RELEASES if release.traced or release is RELEASES.last_parsed],
        default=RELEASES[-1].version,
        help=f"release of NKI to write for (default {RELEASES[-1].version}); {RELEASES.last_parsed.version} keeps its "
        "loops",
    )
    migrating.add_argument("--grid", metavar="N[,N…]", help="the launch grid of the kernel for the runs")
    migrating.add_argument("--seed", type=int, default=0, help="seed of random arguments (default 0)")
    migrating.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        metavar="S",
        help="limit on the proofs of a file, all together (default 60); 0: compare runs only",
    )
    migrating.add_argument(
        "--json", action="store_true", help="print one JSON object with the new sources, differences and outcomes"
    )


def _add_dump(commands: Any) -> None:
    dumping = commands.add_parser("dump", help="print a kernel after a stage, or its native code", description=_DUMP)
    dumping.set_defaults(module="nki.cli.dump")
    _add_kernel(dumping)
    forms = dumping.add_mutually_exclusive_group()
    stages = [SPECIALISE, *STAGES.names]
    forms.add_argument(
        "--after", choices=stages, metavar="STAGE", help=f"stage to print: {', '.join(stages)} (default: the last)"
    )
    forms.add_argument("--loops", action="store_true", help="print the loop IR of the native routines")
    forms.add_argument("--llvm", action="store_true", help="print the optimised LLVM IR of the native routines")
    forms.add_argument("--asm", action="store_true", help="print the assembly of the native routines")
    forms.add_argument("--artifact", metavar="FILE.klir", help="write the compiled kernel to a file")
    forms.add_argument(
        "--memory",
        nargs="?",
        const="",
        metavar="FILE",
        help="draw the address of each tile over time: as text, or into a .svg or .html file",
    )
    dumping.add_argument(
        "--queues", action="store_true", help="print the instructions and waits of each engine and DMA ring"
    )
    dumping.add_argument(
        "--stage",
        action="append",
        default=[],
        metavar="STAGE:OPTION=VALUE[,…]",
        help="set options of a stage; without an option the error lists the stage's options",
    )
    dumping.add_argument(
        "--in-order", action="store_true", help="keep program order on every queue: --stage schedule:reorder=false"
    )
    dumping.add_argument("--lines", action="store_true", help="print each source line above its instructions")
    dumping.add_argument("--json", action="store_true", help="print one JSON object: the text, and the instructions")


def _add_kernel(parser: argparse.ArgumentParser, *, targets_action: str = "store") -> None:
    parser.add_argument("kernel", metavar="KERNEL", help=load_kernel.FORMS)
    _add_arguments(parser, targets_action=targets_action)


def _grid(text: str) -> tuple[int, ...]:
    """The sizes of a launch grid such as 2x4."""
    try:
        sizes = tuple(map(int, text.split("x")))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no grid such as 2x4") from None
    if min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"an axis of {text!r} is no positive number")
    return sizes


def _add_arguments(parser: argparse.ArgumentParser, *, targets_action: str = "store") -> None:
    names = ", ".join(target.name for target in targets.GENERATIONS)
    parser.add_argument(
        "--arg",
        action="append",
        default=[],
        metavar="ARG",
        help=f"an argument of the kernel, in order: {argument.FORMS}",
    )
    several = "; again for several side by side" if targets_action == "append" else ""
    parser.add_argument(
        "--target",
        action=targets_action,
        metavar="NAME",
        help=f"{names} (default: the kernel's, else the environment's){several}",
    )
    launches = parser.add_mutually_exclusive_group()
    launches.add_argument("--cores", type=int, metavar="N", help="launch kernel[N] (default: the number in the file)")
    launches.add_argument("--grid", type=_grid, metavar="NxM", help="launch the Beta 1 kernel kernel[N, M] on one core")
