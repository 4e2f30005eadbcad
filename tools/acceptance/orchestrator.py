"""The library's ``Orchestrator.execute``, for this machine: launch, measure, compare."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from typing import Any, Final

import numpy as np

from nki.base.errors import NkiError
from tools.acceptance import phases
from tools.acceptance.comparisons import Comparison
from tools.acceptance.launches import launched
from tools.acceptance.phases import Phases

ROOM: Final = "NKILIB_ACCEPTANCE_ROOM"
"""The variable with the bytes that a test's inputs may take; without it they may take any."""
COPIES: Final = 2.5
"""Bytes of a test for each byte of its inputs: the reference computes in float32, most inputs are bfloat16."""


_HAZARDS: Final = "NKI-HZ"
"""Codes of programs with undefined results."""


class TooLargeError(BaseException):
    """Inputs leave no room beside other processes: the test is to run alone. Not an Exception, as a time limit."""


class Current:
    """The test that runs in this process: its clock, and the record that the journal gets."""

    clock: Phases
    record: dict[str, Any]


def execute(_orchestrator: Any, kernel_under_test: Any) -> None:
    """Run the kernel on its inputs and compare the results, as the harness does on a device: an error, or nothing."""
    clock, record = Current.clock, Current.record
    numbers: dict[str, Any] = {}
    record.setdefault("launches", []).append(numbers)
    options = kernel_under_test.compiler_input
    ranks = kernel_under_test.inference_args.collective_ranks
    inputs = inputs_of(kernel_under_test.kernel_input, ranks)
    size = sum(value.nbytes for own in inputs for value in own.values() if isinstance(value, np.ndarray))
    cores = options.logical_nc_config
    numbers |= {"kernel": getattr(kernel_under_test.kernel_func, "__name__", "?"), "cores": cores, "ranks": ranks}
    numbers["input_bytes"] = size
    if (room := float(os.environ.get(ROOM, "inf"))) < COPIES * size:
        raise TooLargeError(f"inputs of {size} bytes, in {room:.0f}")
    os.environ["NEURON_PLATFORM_TARGET_OVERRIDE"] = str(options.platform_target.get_compile_target())
    validation = kernel_under_test.validation_args
    try:
        results = launched(kernel_under_test.kernel_func, inputs, cores, clock, numbers)
    except NkiError as error:
        numbers["refused"] = str(error)[:400]
        if error.code.startswith(_HAZARDS):
            with _hazards_off():
                numbers["hazards_off"] = _once_more(kernel_under_test, inputs, cores)
        raise
    numbers["compared"] = 0
    if validation is not None:
        comparison = Comparison(validation, clock, is_partly_written="partly" in numbers)
        try:
            comparison.check(results)
        finally:
            numbers["compared"] = comparison.count


def inputs_of(given: Any, ranks: int) -> list[dict[str, Any]]:
    """The inputs of each rank."""
    if hasattr(given, "for_rank"):
        return [given.for_rank(rank) for rank in range(ranks)]
    return [given or {}] * ranks


@contextlib.contextmanager
def _hazards_off() -> Generator[None]:
    os.environ["OPEN_NKI_HAZARDS"] = "0"
    try:
        yield
    finally:
        del os.environ["OPEN_NKI_HAZARDS"]


def _once_more(kernel_under_test: Any, inputs: list[dict[str, Any]], cores: int) -> str:
    """The outcome of a refused kernel, now that the reason counts for nothing: "passed", or what is wrong still."""
    clock = Phases(Current.clock.limit, Current.clock.changed)
    Current.clock.enter(phases.AGAIN)
    try:
        results = launched(kernel_under_test.kernel_func, inputs, cores, clock, {})
        if kernel_under_test.validation_args is not None:
            Comparison(kernel_under_test.validation_args, clock).check(results)
    except (Exception, phases.TimeLimitError) as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        clock.end()
        Current.clock.enter(phases.AGAIN)
    return "passed"
