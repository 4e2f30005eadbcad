"""Float arguments: one executable for all values where only instructions use them, the value's own elsewhere."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base import knobs
from nki.compilation.cache import store
from tests.compilation import float_kernels
from tests.compilation.float_kernels import AT_RUN_TIME, COMPILED_IN
from tests.support.kernel_parts import returned
from tests.support.shared_launches import at_once, outputs_of

X = np.linspace(-3, 5, 16 * 8, dtype=np.float32).reshape(16, 8)
VALUES = (0.5, 0.125, -1.75, 0.0, -0.0, math.inf, -math.inf, math.nan, 1e-42, -5e-324, 1e300, 1 / 3)
FINITE = tuple(value for value in VALUES if abs(value) < 100)


pytestmark = pytest.mark.usefixtures("own_cache")


def files() -> list[Path]:
    return [path for path in knobs.cache_folder().rglob("*") if path.is_file()]


def same(one: Any, two: Any) -> bool:
    return one.tobytes() == two.tobytes()


def raised(call: Callable[..., Any], *args: Any) -> Any:
    """The result, or the type of what was raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*args).tobytes()
        except Exception as error:
            return type(error), str(error).replace("_", "")


@pytest.mark.parametrize("function", AT_RUN_TIME, ids=lambda f: f.__name__)
def test_one_executable_serves_all_values(function: Any, compilations: list[str]) -> None:
    kernel = nki.jit(function)
    for value in VALUES:
        got = kernel(X, value)
        compiled = len(compilations)
        assert same(got, nki.simulate(kernel)(X, value)), value
        assert same(got, baked(function, value)), value
        del compilations[compiled:]
    assert len(compilations) == 1 and len(kernel._executables) == 1


def baked(function: Any, value: float) -> Any:
    """The result of native code that was compiled for the value."""
    executable = nki.jit(function).compile(X, value)
    assert not executable.float_names and not executable.kernel.signature.floats
    return outputs_of(executable, X)[0]


@pytest.mark.filterwarnings("ignore:kernel .* was compiled 9 times")
@pytest.mark.parametrize("function", COMPILED_IN, ids=lambda f: f.__name__)
def test_a_value_that_python_takes_is_compiled_in(function: Any) -> None:
    """Results and errors equal the simulator's, which knows nothing of floats of launches."""
    kernel = nki.jit(function)
    for value in (*VALUES, *VALUES):
        assert raised(kernel, X, value) == raised(nki.simulate(nki.jit(function)), X, value), value
    assert len(kernel._executables) >= len(FINITE) - 1  # a kernel may be refused for the others
    assert "lr" in kernel._cache.uses
    line = kernel._cache.uses["lr"].span
    assert line is not None and line.file == float_kernels.__file__


def test_a_thousand_learning_rates_are_one_compilation_and_one_file(compilations: list[str]) -> None:
    kernel = nki.jit(float_kernels.one_operand)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(1000):
            rate = 1.0 / (step + 1)
            assert kernel(X, rate)[15, 7] == np.float32(5) * np.float32(rate)
    assert compilations == ["one_operand"] and len(kernel._executables) == 1
    assert len([path for path in files() if path.suffix == store.SUFFIX]) == 1


def test_integers_and_truth_values_are_compiled_in(compilations: list[str]) -> None:
    kernel = nki.jit(float_kernels.one_operand)
    for value in (2, 3, 2.0, 3.0, 2):
        assert same(kernel(X, value), X * np.float32(value))
    assert len(compilations) == 3
    kernel(X, 5.0)
    assert len(compilations) == 3


def test_other_arguments_decide_whether_a_float_is_compiled_in(compilations: list[str]) -> None:
    kernel = nki.jit(float_kernels.on_a_branch)
    for _ in range(2):
        for value in (0.25, 0.75, 0.875):
            assert same(kernel(X, value), X * np.float32(value))
            assert same(kernel(X, value, 1), X * np.float32(2 if value > 0.5 else 3))
    assert len(compilations) == 4
    assert len(kernel._executables) == 4


def either(x, choice, lr):
    t = nl.load(x)
    if choice > 0.5:
        nisa.tensor_scalar(t, t, nl.multiply, lr)
    elif choice > 0:
        nisa.tensor_scalar(t, t, nl.multiply, math.exp(lr))
    else:
        nisa.tensor_scalar(t, t, nl.multiply, 4.0)
    return returned(t)


def test_a_float_that_is_compiled_in_may_decide_on_another(compilations: list[str]) -> None:
    kernel = nki.jit(either)
    cases = [(choice, rate) for choice in (1.0, 0.25, -1.0) for rate in (0.5, 2.0, -1.0)]
    for choice, rate in (*cases, *reversed(cases)):
        assert same(kernel(X, choice, rate), nki.simulate(either)(X, choice, rate)), (choice, rate)
    assert compilations.count("either") == 5
    # Another process finds all of them on the disk, for other values of what is not compiled in, too.
    fresh = nki.jit(either)
    for choice, rate in (*cases, (1.0, 7.0), (-1.0, 7.0)):
        assert same(fresh(X, choice, rate), nki.simulate(either)(X, choice, rate)), (choice, rate)
    assert compilations.count("either") == 5
    assert fresh._cache.uses["choice"].span.line == either.__code__.co_firstlineno + 2


def test_a_warning_names_the_line_that_needs_the_value() -> None:
    kernel = nki.jit(float_kernels.compared)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for step in range(12):
            kernel(X, float(step))
    (warning,) = given
    assert warning.category is nki.NkiWarning and warning.filename == float_kernels.__file__
    assert warning.lineno == float_kernels.compared.__code__.co_firstlineno + 1
    assert "was compiled 9 times for other values of 'lr' alone" in str(warning.message)
    assert "this line needs the value" in str(warning.message)


def inverse(x, lr):
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, 1 / lr)
    return returned(t)


def test_a_formula_without_a_value_raises_at_its_line(compilations: list[str]) -> None:
    for first in (2.0, 0.0):
        kernel = nki.jit(inverse)
        for value in (first, 4.0, 0.0, 0.5):
            if value:
                assert same(kernel(X, value), X * np.float32(1 / value))
                continue
            errors: list[str] = []
            for run in (kernel, nki.simulate(inverse)):
                with pytest.raises(nki.NkiError) as error:
                    run(X, value)
                errors.append(str(error.value))
            assert errors[0] == errors[1] and "1 / lr" in errors[0]
    assert compilations.count("inverse") == 4  # the second kernel comes from the disk, errors do not


def several(x, a, b, c):
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, a * b, op1=nl.add, operand1=c)
    nisa.tensor_scalar(t, t, nl.multiply, 2.0 if b > 0 else 3.0)
    return returned(t)


def test_what_is_computed_with_a_compiled_in_float_is_compiled_in(compilations: list[str]) -> None:
    kernel = nki.jit(several)
    for a, b, c in ((1.0, 2.0, 3.0), (1.0, 2.0, 4.0), (5.0, 2.0, 3.0), (1.0, -2.0, 4.0), (5.0, 2.0, 9.0)):
        assert same(kernel(X, a, b, c), nki.simulate(several)(X, a, b, c))
    assert len(compilations) == 3
    assert {tuple(e.float_names) for e in kernel._executables.values()} == {("c",)}


def two_cores(x, lr, beta):
    rank = nl.program_id(0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[rank * 8 : rank * 8 + 8])
    nisa.tensor_scalar(t, t, nl.multiply, lr if rank else beta, op1=nl.add, operand1=beta * lr)
    nl.store(out[rank * 8 : rank * 8 + 8], t)
    return out


def test_two_cores_get_the_floats(compilations: list[str]) -> None:
    kernel = nki.jit(two_cores)
    for lr, beta in ((1.5, 2.0), (0.1, -3.0), (math.inf, 0.0), (-0.0, 7.0)):
        assert same(kernel[2](X, lr, beta), nki.simulate(kernel[2])(X, lr, beta))
    assert len(compilations) == 1


def test_checked_kernels_get_the_floats() -> None:
    kernel = nki.jit(float_kernels.computed, check=True)
    for value in VALUES:
        assert same(kernel(X, value), nki.simulate(kernel)(X, value))
    assert len(kernel._executables) == 1


def test_floats_reach_kernels_in_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_PRECISE_FP", "0")
    kernel, x = nki.jit(float_kernels.computed), X.astype(nl.bfloat16.dtype)
    for value in (0.5, 1 / 3):
        assert same(kernel(x, value), nki.simulate(kernel)(x, value))


def test_numpy_scalars_are_compiled_in(compilations: list[str]) -> None:
    kernel = nki.jit(float_kernels.one_operand)
    for value in (np.float64(0.5), np.float32(0.25), 0.5):
        assert same(kernel(X, value), X * np.float32(value))
    assert len(compilations) == 3


def test_threads_use_floats_of_their_own(compilations: list[str]) -> None:
    kernel = nki.jit(float_kernels.computed)
    wanted = {value: nki.simulate(kernel)(X, value).tobytes() for value in np.linspace(-2, 2, 64).tolist()}
    wrong: list[float] = []
    start = threading.Barrier(8)

    def run(number: int) -> None:
        start.wait()
        for _ in range(20):
            wrong.extend(value for value in list(wanted)[number::8] if kernel(X, value).tobytes() != wanted[value])

    at_once(run, threads=8)
    assert not wrong and len(compilations) == 1


_PROGRAM = """
import sys, numpy as np, nki
from nki.compilation import pipeline
from tests.compilation.float_kernels import computed, compared, on_a_branch
from tests.compilation.test_float_arguments import X
made = []
specialised = pipeline._specialised
pipeline._specialised = lambda fn, *rest: made.append(fn.__name__) or specialised(fn, *rest)
value = float(sys.argv[1])
for function in (computed, compared, on_a_branch):
    got = nki.jit(function)(X, value)
    count = len(made)
    assert got.tobytes() == nki.simulate(nki.jit(function))(X, value).tobytes()
print(*made)
"""


def test_processes_share_the_kernel_of_all_values() -> None:
    def run(value: float) -> list[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", textwrap.dedent(_PROGRAM), repr(value)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert not done.returncode, done.stderr
        return done.stdout.split()

    assert run(0.5) == ["computed", "compared", "on_a_branch"]
    assert run(0.75) == ["compared"]
    assert run(0.5) == run(0.75) == []


def test_a_damaged_note_is_no_reason_to_fail() -> None:
    kernel = float_kernels.compared
    want = nki.jit(kernel)(X, 0.75)
    (note,) = [path for path in files() if path.name.endswith("-floats.klir")]
    for data in (b"", b"nonsense", note.read_bytes()[:-3], store.artifact.note({"compiled in": [{"lr": 3}, 4]})):
        note.write_bytes(data)
        assert same(nki.jit(kernel)(X, 0.75), want)


def test_an_entry_for_other_floats_is_not_used() -> None:
    """Swapped files: the entry of a kernel that gets its float, instead of one that was compiled for it."""
    one, two = nki.jit(float_kernels.one_operand), nki.jit(float_kernels.compared)
    one(X, 0.75)
    (taken,) = [path for path in files() if path.suffix == store.SUFFIX]
    two(X, 0.75)
    for path in files():
        if path.suffix == store.SUFFIX and path != taken and not path.name.endswith("-floats.klir"):
            path.write_bytes(taken.read_bytes())
    assert same(nki.jit(float_kernels.compared)(X, 0.25), nki.simulate(two)(X, 0.25))
    assert same(nki.jit(float_kernels.compared)(X, 0.75), nki.simulate(two)(X, 0.75))


def test_a_kernel_is_compiled_anew_when_what_it_reads_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = nki.jit(float_kernels.by_another_name)
    assert same(kernel(X, 0.5), X * np.float32(0.5))

    def other(t: Any, _: Any, op: Any, by: Any) -> None:
        nisa.tensor_scalar(t, t, op, math.sqrt(by))

    monkeypatch.setattr(float_kernels, "SCALE", other)
    again = nki.jit(float_kernels.by_another_name)
    for value in (0.25, 4.0):
        assert same(again(X, value), X * np.float32(math.sqrt(value)))
