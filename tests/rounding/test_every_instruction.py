"""The example of every instruction, and the corpus of kernels, run with shadows: no bit changes."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import numpy as np
import pytest

from examples import instructions
from nki import target as targets
from nki.compilation import pipeline
from nki.describe.samples import generations
from nki.ir.instruction import REGISTRY
from nki.rounding import run, shadow_run
from nki.rounding.line_errors import line_errors, output_error
from nki.workload.arguments import parse
from tests.kernels import (  # noqa: F401  # they fill CASES
    indirect,
    language,
    linear,
    matmuls,
    microscaling,
    rows,
    scalars,
    shapes,
    tiles,
    types,
    vector,
)
from tests.kernels.case import CASES

MODULES = [f"{instructions.__name__}.{file.name}" for file in pkgutil.iter_modules(instructions.__path__)]
KERNELS: dict[str, tuple[Any, Any]] = {
    name: (module, arguments)
    for module in map(importlib.import_module, MODULES)
    for name, arguments in module.ARGUMENTS.items()
}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_shadows_change_no_bit(name: str) -> None:
    module, texts = KERNELS[name]
    kernel = getattr(module, name)[getattr(module, "CORES", {}).get(name, 1)]
    parameters = inspect.signature(kernel.func).parameters
    arguments = dict(zip(parameters, (parse(text)[1] for text in texts), strict=True))
    specs = {parameter: value.spec(parameter) for parameter, value in arguments.items()}
    target = generations(REGISTRY[name])[-1]
    program = pipeline.compile(kernel.func, specs, target, grid=kernel.grid, stop=run.STOP)
    arrays = [value.array(0, number) for number, value in enumerate(arguments.values())]
    outputs, notes = shadow_run.run(program, arrays)
    for output, plain in zip(outputs, shadow_run.plain(program, arrays), strict=True):
        assert output.real.tobytes() == plain.tobytes()
        assert np.isfinite(output.exact).sum() >= np.isfinite(output.real).sum()
        assert output_error(output).error < 0.05  # what float32 does: no float8 is rounded to here
    assert all(line.share <= 1 for line in line_errors(outputs, notes))


FOLLOWS_THE_RUN = {"elements_in_place", "mx_quantised_here", "quantised", "quantize_int8", "saturating"}
"""Kernels that scatter elements or round to packed formats, which have no shadow (docs/accuracy.md), and references
that round to 8-bit integers, which a shadow does not.
"""


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_shadow_is_what_numpy_computes_in_float64(name: str) -> None:
    case = CASES[name]
    arguments = case.arguments()
    target = targets.find(case.targets[-1])
    program, arrays, _ = run.specialised(case.kernel, tuple(arguments), {}, target, 0)
    outputs, _ = shadow_run.run(program, arrays)
    for output, plain, want in zip(outputs, shadow_run.plain(program, arrays), case.expected(arguments), strict=True):
        assert output.real.tobytes() == plain.tobytes()
        right = np.asarray(want, np.float64).reshape(-1)
        scale = np.nanmax(np.abs(right)) or 1.0
        errors = [np.nanmax(np.abs(each - right)) / scale for each in (output.exact, output.real)]
        assert name in FOLLOWS_THE_RUN or errors[0] < max(1e-9, 1e-3 * errors[1]), errors
