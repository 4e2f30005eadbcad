"""Balls enclose what programs compute over the real numbers; the bits beside them stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from nki import target as targets
from nki.backend.numpy import executor
from nki.base import element_types as dtypes
from nki.compilation import pipeline
from nki.ir.types import TensorSpec
from nki.proofs.enclosure import enclose, executable
from tests.kernels import indirect, language, linear, matmuls, microscaling, rows, scalars, shapes, tiles, types, vector
from tests.kernels.case import CASES

MODULES = (indirect, language, linear, matmuls, microscaling, rows, scalars, shapes, tiles, types, vector)
UNKNOWN = ("elements_in_place", "matmul_of_chosen_columns", "mx_quantised_here", "mx_words", "random_bits")
"""Kernels with outputs that may be anything: chosen elements, packed numbers that were rounded, products that wrap
around."""


def program_of(name):
    case = CASES[name]
    kernel, target = case.kernel, targets.find(case.targets[-1])
    bound = kernel.bind(tuple(case.arguments()), {})
    specs = {
        name: TensorSpec(name, value.shape, dtypes.of(value.dtype)) if isinstance(value, np.ndarray) else value
        for name, value in bound.items()
    }
    return executable(
        pipeline.compile(
            kernel.func, specs, target, grid=kernel.launch_grid(target), edges=kernel.schedule,
            stop=pipeline.SPECIALISE, configs=kernel.configs,
        )
    )  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_reference_lies_in_the_balls(name):
    case, program = CASES[name], program_of(name)
    arrays = case.arrays()
    found = enclose(program, arrays)
    plain = executor.run(program, [array.copy() for array in arrays])
    assert [each.tobytes() for each in found.outputs] == [each.tobytes() for each in plain]
    known = [np.isfinite(each.radius).all() for each in found.balls]
    assert all(known) == (name not in UNKNOWN)
    for right, ball in zip(case.expected(case.arguments()), found.balls, strict=True):
        right = np.asarray(right, np.float64).reshape(ball.centre.shape)
        own = 2.0**-46 * np.maximum(np.abs(right), np.abs(right).max(initial=0.0))  # the reference rounds, too
        outside = np.abs(right - ball.centre) > ball.radius + own
        assert not (outside & (right != ball.centre)).any()


def test_inputs_stay_as_they_are():
    program = program_of("softmax")
    arrays = CASES["softmax"].arrays()
    before = [array.copy() for array in arrays]
    enclose(program, arrays)
    assert all(one.tobytes() == other.tobytes() for one, other in zip(arrays, before, strict=True))
