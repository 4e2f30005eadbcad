"""One launch of a kernel under test: native, with its numbers, and in the simulator where that takes no minute."""

from __future__ import annotations

import contextlib
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import nki
from nki import target as targets
from nki.base.errors import NkiError
from nki.base.warning import NkiSpillWarning, NkiWarning
from nki.compilation import pipeline
from nki.compilation.executable import Executable
from nki.compilation.first_call import interpretation_seconds
from nki.ir.program import Program
from nki.profiling.kernel_profile import of_program
from tools.acceptance import phases, resident
from tools.acceptance.phases import Phases

ALIAS: Final = ".must_alias_input"
"""The end of the names of arguments that the kernel changes."""
EAGER: Final = float(os.environ.get("NKILIB_ACCEPTANCE_SIMULATE", "60"))
"""Seconds: a launch that the simulator is thought to take longer for runs natively alone."""
_PATIENCE: Final = 3
"""Times that it may take longer than that."""
_SLOWER: Final = 100
"""Seconds of the simulator for each second of native code, a guess on the safe side."""
PREDICTED: Final = 400_000
"""Instructions: the timing model, 100,000 to 200,000 of them a second, leaves out longer kernels."""
_PARTLY: Final = "is written in part"
"""Words of the simulator's warning of an output with elements that nothing writes."""
Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Any]


class DifferentBitsError(AssertionError):
    """Native code and the simulator gave results with different bits."""


def launched(
    func: Any, inputs: Sequence[Inputs], cores: int, clock: Phases, numbers: dict[str, Any]
) -> list[list[Array]]:
    """The results of ``func`` for each rank, one of ``inputs``, natively on ``cores`` cores of each.

    ``numbers`` gets the measurements. Raises the errors of the kernel, and :class:`DifferentBitsError`.
    """
    kernel = (func if hasattr(func, "compile") else nki.jit(func))[cores]
    if len(inputs) > 1:
        return _on_ranks(kernel, inputs, clock, numbers)
    given = {name.removesuffix(ALIAS): _whole(value) for name, value in inputs[0].items()}
    executable = _compiled(kernel, given, clock, numbers)
    changed = {executable.inputs[number].name for number in executable.changes.values()}
    clock.enter(phases.RUN)
    before = resident.begin()
    results = flat(kernel(**_fresh(given, changed)))
    numbers["run_peak"] = resident.peak() - before
    clock.end()
    took = clock.seconds[phases.RECORD] + _seconds(executable.kernel, clock.seconds[phases.RUN])
    if took <= EAGER:
        clock.enter(phases.SIMULATE, _PATIENCE * EAGER)
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always", NkiWarning)
                simulated = flat(nki.simulate(kernel)(**_fresh(given, changed)))
        except phases.TimeLimitError:
            numbers["executors"] = "native; the simulator took too long"
        else:
            if partly := [str(each.message) for each in warned if _PARTLY in str(each.message)]:
                numbers["partly"] = partly[0][:200]
            check_bits([results], [simulated])
            numbers["executors"] = "both"
    clock.enter(phases.PREDICT)
    _predict(executable.kernel, numbers)
    return [results]


def _compiled(kernel: Any, given: Inputs, clock: Phases, numbers: dict[str, Any]) -> Executable:
    def observe(stage: str, program: Program) -> None:
        if stage == "specialise":
            numbers["instructions"] = program.size
            clock.enter(phases.COMPILE)

    clock.enter(phases.RECORD)
    before = resident.begin()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", NkiSpillWarning)
        executable = kernel.compile(**given, observe=observe)
    if warned:
        numbers["spills"] = str(warned[0].message)[:200]
    numbers["compile_peak"] = resident.peak() - before
    numbers |= _peaks(executable.kernel)
    numbers["executors"] = "native"
    return executable


def _peaks(program: Program) -> dict[str, int]:
    """The highest byte in use in a partition of SBUF and of PSUM, on the core that has most."""
    most = {"sbuf": 0, "psum": 0}
    for core in program.cores:
        for tensor, place in core.placement.items():
            space = tensor.buffer.name
            if space in most:
                most[space] = max(most[space], place[1] + tensor.bytes_per_partition)
    return most


def _predict(program: Program, numbers: dict[str, Any]) -> None:
    if numbers.get("instructions", 0) > PREDICTED:
        return
    with contextlib.suppress(NkiError):
        placed = pipeline.compile(None, {}, targets.find(program.target), start=program)
        numbers["latency"] = of_program(placed).latency


def _on_ranks(kernel: Any, inputs: Sequence[Inputs], clock: Phases, numbers: dict[str, Any]) -> list[list[Array]]:
    """The launch on several ranks at once. ``run`` is the time of all, compilations of the ranks included."""
    clock.enter(phases.RUN)
    before = resident.begin()
    with nki.ranks(len(inputs)):
        results = [flat(result) for result in kernel(**_of_ranks(inputs))]
    numbers["run_peak"] = resident.peak() - before
    programs = [executable.kernel for executable in kernel._executables.values()]
    numbers["instructions"] = max((program.size for program in programs), default=0)
    for peaks in map(_peaks, programs):
        numbers |= {space: max(size, numbers.get(space, 0)) for space, size in peaks.items()}
    numbers["executors"] = "native"
    if programs and len(inputs) * max(_seconds(program) for program in programs) <= EAGER:
        clock.enter(phases.SIMULATE, _PATIENCE * EAGER)
        try:
            simulated = [flat(result) for result in nki.simulate(kernel, ranks=len(inputs))(**_of_ranks(inputs))]
        except phases.TimeLimitError:
            numbers["executors"] = "native; the simulator took too long"
        else:
            check_bits(results, simulated)
            numbers["executors"] = "both"
    return results


def _seconds(program: Program, run: float = math.inf) -> float:
    """The estimated seconds of the simulator. A loop of unknown length counts with the native ``run``."""
    seconds = sum(interpretation_seconds(core.body) for core in program.cores)
    return seconds if math.isfinite(seconds) else _SLOWER * run


def _of_ranks(inputs: Sequence[Inputs]) -> dict[str, Any]:
    """A list of each argument's values by rank; arrays with memory of their own, as a rank may change its own."""
    result: dict[str, Any] = {}
    for name in inputs[0]:
        values = [_whole(own[name]) for own in inputs]
        result[name.removesuffix(ALIAS)] = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    return result


def _fresh(given: Inputs, changed: set[str]) -> dict[str, Any]:
    """``given`` with copies of the arrays that the kernel changes: the references read the originals later."""
    return {name: value.copy() if name in changed else value for name, value in given.items()}


def _whole(value: Any) -> Any:
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value


def flat(result: Any) -> list[Array]:
    """The arrays of a kernel's result, in order."""
    if result is None:
        return []
    if isinstance(result, (list, tuple)):
        return [array for item in result for array in flat(item)]
    if isinstance(result, dict):
        return [array for item in result.values() for array in flat(item)]
    return [np.asarray(result)]


def check_bits(native: Sequence[Sequence[Array]], simulated: Sequence[Sequence[Array]]) -> None:
    """Raise :class:`DifferentBitsError` if a result of a rank is another one, shape and dtype included."""
    for rank, (left, right) in enumerate(zip(native, simulated, strict=True)):
        for number, (ours, theirs) in enumerate(zip(left, right, strict=True)):
            if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
                raise DifferentBitsError(f"rank {rank}, result {number}: {ours.shape} {ours.dtype}, simulated {theirs}")
            octets = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in (ours, theirs)]
            if different := int(np.count_nonzero(octets[0] != octets[1])):
                raise DifferentBitsError(f"rank {rank}, result {number}: {different} of {octets[0].size} bytes differ")
