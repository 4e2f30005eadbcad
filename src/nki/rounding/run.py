"""``nki.accuracy``: where the digits of a kernel's results go."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nki import target as targets
from nki.base import element_types as dtypes
from nki.base.errors import NkiError
from nki.compilation.launch_errors import strip_frames
from nki.ir.program import Program
from nki.passes.accumulate import Accumulate
from nki.profiling.compiling import as_kernel, checked_target, compiled_to, shaped_arguments
from nki.profiling.shapes import is_shape_only
from nki.rounding import shadow_run, wider_tiles
from nki.rounding.line_errors import line_errors, output_error
from nki.rounding.report import Accuracy
from nki.target.model import Target
from nki.workload.arguments import filled

Array = NDArray[Any]
STOP = Accumulate.name
"""The stage after which a program runs with shadows: tiles have no places yet, so none lies over another."""


def accuracy(
    kernel: Callable[..., Any], target: str | Target | None = None, *, seed: int = 0
) -> Callable[..., Accuracy]:
    """``nki.accuracy(kernel)(*args)``: where the digits of a kernel's results go, as an :class:`Accuracy`.

    The simulator runs the kernel on ``args``, and beside it the same program in float64. ``args`` are arrays; one that
    has only a shape and a dtype, such as ``nki.ShapeDtype``, gets random numbers from ``seed``. ``target``: ``"trn2"``
    or another name; None for the kernel's own. Other data may lose other digits.

    Raises the errors of the compiler, and of a run: nothing is caught.
    """
    as_kernel(kernel)

    @functools.wraps(getattr(kernel, "func", kernel))
    def measure(*args: Any, **kwargs: Any) -> Accuracy:
        try:
            chosen = target if target is None or isinstance(target, Target) else targets.find(str(target))
            program, arrays, used = specialised(kernel, args, kwargs, chosen, seed)
            return measured(program, arrays, used)
        except NkiError as error:
            __tracebackhide__ = True
            raise strip_frames(error)  # noqa: B904  # its cause is settled

    return measure


def specialised(
    kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], target: Target | None, seed: int
) -> tuple[Program, list[Array], Target]:
    """The program of ``kernel`` after :data:`STOP`, its inputs, and the target."""
    launched = as_kernel(kernel)
    chosen = checked_target(launched, target)
    adapter, arguments = shaped_arguments(launched, args, kwargs)
    given = launched.bind(args, kwargs)
    arrays: list[Array] = []
    for name, value in arguments.items():
        if not adapter.is_framework_tensor(value):
            continue
        dense = np.ascontiguousarray(adapter.to_numpy(value))
        if is_shape_only(given[name]):
            dense = filled(dense.shape, dtypes.of(dense.dtype)).array(seed, len(arrays))
        arrays.append(dense)
    return compiled_to(STOP, launched, launched.specs(arguments, adapter), chosen), arrays, chosen


def measured(program: Program, arrays: Sequence[Array], target: Target) -> Accuracy:
    """The accuracy of ``program``, after :data:`STOP`, on ``arrays``."""
    outputs, notes = shadow_run.run(program, arrays)
    lines = line_errors(outputs, notes)
    wider = wider_tiles.tried(program, arrays, outputs, lines, target)
    errors = tuple(map(output_error, outputs))
    return Accuracy(program.name, str(target), program.size, errors, lines, wider)
