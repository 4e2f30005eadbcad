"""Small real kernels: native code and the eager simulator give the same bits, close to NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import nki
from nki.backend.numpy import executor
from nki.compilation.executable import Executable
from nki.ir.text import artifact, parser, printer
from nki.target import ENVIRONMENT
from tests.support.shared_launches import launched, outputs_of, shared

from . import indirect, language, linear, matmuls, microscaling, rows, scalars, shapes, tiles, types, vector
from .case import CASES

MODULES = (indirect, language, linear, matmuls, microscaling, rows, scalars, shapes, tiles, types, vector)
__all__ = ["shared"]
RUNS = [(name, target) for name, case in CASES.items() for target in case.targets]


def bits(outputs):
    outputs = outputs if isinstance(outputs, tuple | list) else [outputs]
    return [(o.dtype, o.shape, np.ascontiguousarray(o).tobytes()) for o in outputs]


@pytest.mark.parametrize(("name", "target"), RUNS, ids=["-".join(run) for run in RUNS])
def test_native_code_the_simulator_and_numpy_agree(name, target, monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, target)
    case = CASES[name]
    arguments = case.arguments()
    before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    outputs = case.kernel(*arguments)
    assert bits(outputs) == bits(nki.simulate(case.kernel)(*arguments))
    assert bits(outputs) == bits(case.kernel(*arguments)), "the second launch differs from the first"
    for got, want in zip(arguments, before, strict=True):
        assert not isinstance(got, np.ndarray) or got.tobytes() == want.tobytes(), "an input has changed"
    expected = case.expected(arguments)
    outputs = outputs if isinstance(outputs, tuple | list) else [outputs]
    assert len(outputs) == len(expected)
    for got, want in zip(outputs, expected, strict=True):
        want = np.asarray(want, np.float64)
        assert got.shape == want.shape
        error = np.abs(got.astype(np.float64) - want).max()
        assert error <= case.bound * np.abs(want).max(), f"{error / np.abs(want).max():.3e} relative"


@pytest.mark.parametrize("name", CASES)
def test_threads_give_the_bits_of_the_simulator(name, shared):
    program, arrays = CASES[name].compile(shared).kernel, CASES[name].arrays()
    expected = [np.ascontiguousarray(output).tobytes() for output in executor.run(program, arrays)]
    for outputs in launched(program, arrays, shared):
        assert outputs == expected


@pytest.mark.parametrize("name", CASES)
def test_text_and_artifact_are_the_kernel(name):
    case = CASES[name]
    arguments, arrays = case.arguments(), case.arrays()
    compiled = case.kernel.compile(*arguments)
    shown = printer.show(compiled.kernel)
    read = parser.parse(shown)
    assert read == compiled.kernel
    assert printer.show(read) == shown
    wanted = bits(case.kernel(*arguments))
    assert bits(executor.run(artifact.loads(artifact.dumps(read)), arrays)) == wanted
    assert bits(outputs_of(Executable.load(compiled.artifact()), *arrays)) == wanted


def test_the_corpus_is_whole():
    assert len(CASES) >= 25
    assert {case.kernel.func.__module__ for case in CASES.values()} == {m.__name__ for m in MODULES}
