"""A specialised program at some draws of its inputs: checked, compiled, run, compared, and its time predicted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki import target as targets
from nki.base import knobs
from nki.base.locks import imported
from nki.base.sweep_errors import BadReferenceError, WrongResultError
from nki.base.warning import collecting
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.numerics.floating_point import default_environment
from nki.profiling.assumptions import Compiled, compiled
from nki.profiling.compiling import Inputs, trips_of, unknown_loops
from nki.profiling.draws import latencies
from nki.profiling.kernel_profile import Profile, of_program
from nki.sweeps import comparison
from nki.sweeps.record import Outcome, failed, outcome
from nki.sweeps.space import Tolerance

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Draw:
    """Inputs of one run, made when they are needed, and the right results; None without a reference."""

    arrays: Callable[[], list[Array]]
    expected: Callable[[list[Array]], list[Array] | None]


@dataclass(frozen=True, slots=True)
class Steps:
    """The work at each draw. ``runs``: native launches; the fastest one counts; 0: the time is predicted only.
    ``draws``: predictions with other values of what the timing model does not know (:mod:`nki.profiling.draws`).
    """

    runs: int = 1
    tolerance: Tolerance = field(default_factory=Tolerance)
    draws: int = 0


def evaluate(specialise: Callable[[], Program], draws: Sequence[Draw], steps: Steps) -> list[Outcome]:
    """The outcome at each draw of the program that ``specialise`` makes. Raises nothing but what ends a process."""
    shared = outcome()
    executable = None
    try:
        with default_environment(), collecting(aside=True) as warned:
            program, kernel = _compiled(specialise())
            shared["depends_on_data"] = bool(unknown_loops(kernel.timed.program))
            shared["instructions"] = kernel.timed.program.size
            if not shared["depends_on_data"]:
                _predict(shared, of_program(kernel), steps)
        shared["warnings"] = len(warned)
        if steps.runs:
            started = time.perf_counter()
            executable = imported("nki.compilation.executable").Executable(program)
            shared["compile_seconds"] = time.perf_counter() - started
    except Exception as error:  # whatever a user's kernel raises belongs to its point
        return [failed(shared, error)] * len(draws)
    return [_drawn(shared, program, kernel, executable, draw, steps) for draw in draws]


def _compiled(program: Program) -> tuple[Program, Compiled]:
    """The program with addresses, which native code needs, and the scheduled one that a profile replays."""
    target = targets.find(program.target)
    seen: dict[str, Program] = {}

    def compile_all(observe: pipeline.Observe) -> Program:
        def both(stage: str, reached: Program) -> None:
            seen.setdefault(stage, reached)
            observe(stage, reached)

        return pipeline.compile(None, {}, target, start=program, observe=both)

    kernel = compiled(compile_all, target)
    return seen[pipeline.NATIVE_STOP], kernel


def _predict(found: Outcome, profile: Profile, steps: Steps) -> None:
    found["latency"] = profile.latency
    found["latency_min"], found["latency_max"] = profile.interval
    if steps.draws:
        found["drawn"] = list(latencies(profile, steps.draws))


def _drawn(shared: Outcome, program: Program, kernel: Compiled, executable: Any, draw: Draw, steps: Steps) -> Outcome:
    """One draw: the time if it depends on data, then the run."""
    found: Outcome = {**shared}
    try:
        if found["depends_on_data"]:
            arrays = draw.arrays()
            inputs = Inputs({str(number): lambda array=array: array for number, array in enumerate(arrays)})
            least, most = trips_of(kernel.timed.program, inputs, None)
            _predict(found, of_program(kernel, most, least), steps)
        if executable is not None:
            _run(found, program, executable, draw, steps)
    except WrongResultError as error:
        return failed(found, error, "wrong")
    except BadReferenceError as error:
        return failed(found, error, "reference")
    except Exception as error:
        return failed(found, error)
    return found


def _run(found: Outcome, program: Program, executable: Any, draw: Draw, steps: Steps) -> None:
    """The simulator, watched for hazards; native code, of the same bits; the reference. Fills in ``found``."""
    arrays = draw.arrays()
    wanted = draw.expected(arrays)
    simulated: list[Array] | None = None
    with collecting(aside=True) as warned:
        if knobs.hazards():
            simulated = imported("nki.compilation.simulated_run").run(program, [each.copy() for each in arrays])
        results = [np.empty(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
        found["run_seconds"] = _launched(executable, arrays, results, steps.runs)
    found["warnings"] += len(warned)
    digest = hashlib.sha256(b"".join(each.tobytes() for each in results))
    found["sha256"] = digest.hexdigest()[:16]
    if simulated is not None:
        imported("nki.compilation.simulated_run").compare(program, results, simulated)
    if wanted is not None:
        found["error"] = _compared(program, results, wanted, steps.tolerance)


def _compared(program: Program, results: list[Array], wanted: Sequence[Array], tolerance: Tolerance) -> float:
    """The error of what the kernel returns, and of inputs that it changes besides if the reference returns them too."""
    hidden = len(wanted) == len(results)
    outputs = program.outputs if hidden else program.signature.returned
    return comparison.compare(outputs, results[: len(outputs)], wanted, tolerance)


def _launched(executable: Any, arrays: list[Array], results: list[Array], runs: int) -> float:
    """The time of the fastest launch in seconds. Each begins with the same inputs, which a kernel may change."""
    times: list[float] = []
    for _ in range(runs):
        inputs = [each.copy() for each in arrays]
        pointers = [array.ctypes.data for array in inputs + results]
        started = time.perf_counter()
        executable.launch(pointers)
        times.append(time.perf_counter() - started)
    return min(times)
