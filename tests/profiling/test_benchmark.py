"""``nki.benchmark(kernel)(*args)``: measured on this machine, predicted for the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import ArgumentError, KernelArgumentError
from nki.harness.benchmark import Benchmark
from tests.harness import kernels

X = np.ones((128, 64), np.float32)


def test_measured_and_predicted_beside_each_other() -> None:
    result = nki.benchmark(nki.jit(kernels.add))(X, X)
    assert isinstance(result, Benchmark)
    assert (result.warmup, result.iterations) == (10, 100)
    times = sorted(result.cpu_seconds)
    assert result.percentile(0) == times[0] <= result.percentile(50) <= result.percentile(100) == times[-1]
    assert result.predicted_seconds == nki.profile(nki.jit(kernels.add))(X, X).latency
    first, measured, predicted, parts = str(result).splitlines()
    assert first == "add: 100 runs after 10 to warm up"
    assert measured.startswith("  this CPU, measured: min ") and "median" in measured and "p99" in measured
    assert predicted.startswith("  trn3, predicted: ") and "between" in predicted
    assert parts.endswith(" of launch") and " of them on the device, " in parts
    assert "\n" not in repr(result)


def test_target_and_numbers_of_runs() -> None:
    result = nki.benchmark(kernels.add, target="trn2", warmup=1, iters=3)(X, X, scale=2.0)
    assert (result.warmup, result.iterations, result.profile.target.name) == (1, 3, "trn2")
    with pytest.raises(ArgumentError, match="iters=0"):
        nki.benchmark(kernels.add, target="trn2", iters=0)(X, X)
    with pytest.raises(ArgumentError, match="no number from 0 to 100"):
        result.percentile(500)
    with pytest.raises(KernelArgumentError, match="device_lock"):
        nki.benchmark(kernels.add, target="trn2", device_lock=None)

    @nki.benchmark(target="trn1", warmup=0, iters=1)
    def kernel(a: Any, b: Any) -> Any:
        return kernels.add(a, b)

    assert kernel(X, X).profile.target.name == "trn1"


def test_the_form_of_beta_1_stays() -> None:
    for decorated in (nki.benchmark(kernels.add), nki.benchmark(warmup=1, iters=2)(kernels.add)):
        np.testing.assert_array_equal(decorated(X, X), X + X)
        assert decorated.benchmark_result.cpu_latency.cpu_seconds
    both = nki.benchmark(nki.jit(kernels.add), warmup=1, iters=2)
    np.testing.assert_array_equal(both(X, X), X + X)


def test_inputs_stay_as_they_are() -> None:
    state = np.zeros((4, 4), np.float32)
    nki.benchmark(nki.jit(kernels.accumulate), target="trn2", iters=3)(state, np.ones((4, 4), np.float32))
    assert not state.any()


def test_two_cores() -> None:
    result = nki.benchmark(nki.jit(kernels.cores)[2])(np.zeros((4, 4), np.float32))
    assert len(result.profile.cores) == 2
