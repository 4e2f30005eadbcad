"""``nki run``: compiles a kernel, runs it, and reports results and times."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nki.base import knobs
from nki.base.usage import UsageError
from nki.base.warning import Warned, collecting
from nki.base.wording import plural
from nki.cli import where_time
from nki.cli.output.documents import Run, TensorRecord, Where
from nki.cli.output.findings import warnings
from nki.cli.output.printed import print_document, stamp
from nki.cli.output.streams import aside
from nki.cli.terminal_progress import bar
from nki.compilation import simulated_run
from nki.compilation.executable import Executable
from nki.compilation.pipeline import NATIVE_STOP
from nki.ir.program import Program
from nki.profiling.amounts import duration
from nki.workload.arguments import RUNS, Array
from nki.workload.job import Work, prepared


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one ``nki run``. Times are in seconds; an eager run compiles nothing."""

    program: Program
    arrays: list[Array]
    results: list[Array]
    routines: int | None
    specialise_seconds: float | None
    native_seconds: float | None
    run_seconds: list[float]
    checked: bool = False
    warned: int = 0
    """Number of warnings of the check."""
    where: Where | None = None
    """The time by line and by routine."""


def command(options: argparse.Namespace) -> int:
    """Carry out ``nki run``."""
    simulate = bool(options.simulate) or knobs.simulator()
    repeat: int = options.repeat if options.repeat is not None else 1 if simulate else RUNS
    if repeat < 1:
        raise UsageError(f"--repeat {repeat}: a kernel runs at least once")
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed}: seeds are not negative")
    save = Path(options.save) if options.save else None
    if save is not None:
        _check_save(save)
    # What a kernel prints while it is specialised must not end up inside the JSON.
    given = options.kernel, options.arg, options.target, options.cores, options.grid
    with aside() if options.json else contextlib.nullcontext(), collecting() as warned, prepared(*given) as work:
        if simulate and options.where:
            raise UsageError("--where: the simulator runs no native routines", "leave out --simulate")
        if simulate:
            outcome = _simulate(work, options.seed, repeat)
        else:
            outcome = _native(work, options, repeat, save)
    if save is not None:
        _save(save, outcome)
    report = _report(outcome, warned)
    if options.json:
        print_document(report)
    else:
        print(_text(report, outcome.warned))
    return 0


def _native(work: Work, options: argparse.Namespace, repeat: int, save: Path | None) -> Outcome:
    started = time.perf_counter()
    program = work.compile(NATIVE_STOP)
    specialised = time.perf_counter() - started
    if save is not None:
        _check_outputs(save, program)
    executable = Executable(program, bar)
    arrays = work.arrays(options.seed)
    check = bool(options.check)
    with collecting() as warned:
        expected = simulated_run.run(program, arrays) if check else None
    results = [np.empty(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
    pointers = [array.ctypes.data for array in arrays + results]
    times: list[float] = []
    for _ in range(repeat):
        started = time.perf_counter()
        executable.launch(pointers)
        times.append(time.perf_counter() - started)
    if expected is not None:
        simulated_run.compare(program, results, expected)
    native = executable.compile_seconds
    routines = len(executable.linked.code)
    where = where_time.report(executable, pointers, repeat) if options.where else None
    return Outcome(program, arrays, results, routines, specialised, native, times, check, len(warned), where)


def _simulate(work: Work, seed: int, repeat: int) -> Outcome:
    arrays = work.arrays(seed)
    times: list[float] = []
    outcome: tuple[Program, list[Array]] | None = None
    for _ in range(repeat):
        started = time.perf_counter()
        outcome = work.simulate(arrays)
        times.append(time.perf_counter() - started)
    assert outcome is not None, "repeat is at least 1"
    return Outcome(outcome[0], arrays, outcome[1], None, None, None, times)


def _check_save(path: Path) -> None:
    if path.suffix not in (".npy", ".npz"):
        raise UsageError(f"--save {path}: results are saved as .npy (one) or .npz (any number)")
    if not path.parent.is_dir():
        raise UsageError(f"--save {path}: there is no folder {path.parent}")


def _check_outputs(path: Path, program: Program) -> None:
    count = len(program.signature.returned)
    if path.suffix == ".npy" and count != 1:
        raise UsageError(f"--save {path}: {program.name} has {count} outputs", "save them to a .npz file")


def _save(path: Path, outcome: Outcome) -> None:
    _check_outputs(path, outcome.program)
    if path.suffix == ".npy":
        np.save(path, outcome.results[0])
    else:
        named = {t.name: array for t, array in zip(outcome.program.outputs, outcome.results, strict=True)}
        np.savez(path, allow_pickle=False, **named)


def _report(outcome: Outcome, warned: list[Warned]) -> Run:
    """The outcome as a document."""
    program = outcome.program
    report: Run = {
        **stamp(),
        "kernel": program.name,
        "target": program.target,
        "executor": "simulator" if outcome.routines is None else "native",
        "instructions": program.size,
        "routines": outcome.routines,
        "inputs": [_described(t.name, t.dtype.name, a) for t, a in zip(program.inputs, outcome.arrays, strict=True)],
        "outputs": [_described(t.name, t.dtype.name, a) for t, a in zip(program.outputs, outcome.results, strict=True)],
        "specialise_seconds": outcome.specialise_seconds,
        "native_seconds": outcome.native_seconds,
        "run_seconds": statistics.median(outcome.run_seconds),
        "runs": len(outcome.run_seconds),
        "checked": outcome.checked,
        "warnings": warnings(warned),
    }
    if outcome.where is not None:
        report["where"] = outcome.where
    return report


def _described(name: str, dtype: str, array: Array) -> TensorRecord:
    """A tensor as JSON values: shortened ``sha256`` of its bytes, ``sum`` in float64 (as text if not finite)."""
    with np.errstate(all="ignore"):
        total = float(array.astype(np.float64).sum())
    digest = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    shown = total if math.isfinite(total) else str(total)
    return {"name": name, "shape": list(array.shape), "dtype": dtype, "sha256": digest, "sum": shown}


def _text(report: Run, warned: int) -> str:
    count, routines = report["instructions"], report["routines"]
    lines = [f"{report['kernel']} on {report['target']}: {plural(count, 'instruction')}"]
    if routines is not None:
        lines[0] += f", {plural(routines, 'native routine')}"
    rows = [("input", t) for t in report["inputs"]] + [("output", t) for t in report["outputs"]]
    types = [f"{t['dtype']}[{','.join(map(str, t['shape']))}]" for _, t in rows]
    names = max(len(t["name"]) for _, t in rows)
    width = max(map(len, types))
    for (role, t), kind in zip(rows, types, strict=True):
        total = t["sum"] if isinstance(t["sum"], str) else f"{t['sum']:.9g}"
        lines.append(f"  {role:<6} {t['name']:<{names}}  {kind:<{width}}  sha256 {t['sha256']}  sum {total}")
    first, second = report["specialise_seconds"], report["native_seconds"]
    if first is not None and second is not None:
        parts = f"{duration(first)} to specialise, {duration(second)} to native code"
        lines.append(f"  compiled in {duration(first + second)} ({parts})")
    if report["checked"]:
        found = plural(warned, "warning") if warned else "no hazards"
        lines.append(f"  checked: {found}, and the reference executor gives the same bits")
    how = "ran" if routines is not None else "simulated"
    median = f" (median of {report['runs']})" if report["runs"] > 1 else ""
    lines.append(f"  {how} in {duration(report['run_seconds'])}{median}")
    if "where" in report:
        lines += where_time.text(report["where"])
    return "\n".join(lines)
