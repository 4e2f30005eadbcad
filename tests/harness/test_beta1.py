"""``nki.baremetal``, ``benchmark``, ``profile`` and ``simulate_kernel``: harnesses as they are for NKI Beta 1."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import ArgumentError, ArtifactError, GridError, KernelArgumentError
from tests.harness import kernels


def no_neff() -> Any:
    return pytest.warns(nki.NkiPortabilityWarning, match="it is no NEFF")


def test_baremetal_as_a_call(arrays: Any, make: Any) -> None:
    a, b = map(make, arrays)
    result = nki.baremetal(kernels.add, additional_compile_opt="--disable-internal-io-dge")(a, b, scale=2.0)
    assert type(result) is type(a)
    assert np.array_equal(np.asarray(result), arrays[0] + 2 * arrays[1])


@pytest.mark.parametrize("decorate", [nki.baremetal, nki.baremetal(), lambda f: nki.baremetal(nki.jit(f))])
def test_baremetal_as_a_decorator(arrays: Any, decorate: Any) -> None:
    @decorate
    def kernel(a, b):
        return kernels.add(a, b)

    assert kernel.__name__ == "kernel"
    assert np.array_equal(kernel(*arrays), arrays[0] + arrays[1])


def test_baremetal_leaves_the_file_that_is_asked_for(arrays: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(nki.NkiPortabilityWarning) as warned:
        nki.baremetal(save_neff_name="file.neff", save_trace_name="profile.ntff")(kernels.add)(*arrays)
    assert ["no trace 'profile.ntff'" in str(w.message) for w in warned] == [False, True]
    assert not Path("profile.ntff").exists()  # a trace that was not recorded
    shutil.move("file.neff", "kept.neff")
    model = nki.runtime.SpikeModel.load_from_neff("kept.neff")
    assert list(model.input_tensors_info) == ["a", "b"]


def test_benchmark_measures_this_machine(arrays: Any, make: Any) -> None:
    a, b = map(make, arrays)
    bench = nki.benchmark(warmup=1, iters=5, device_lock=None, benchmark_machine=None)(kernels.add)
    assert np.array_equal(np.asarray(bench(a, b)), arrays[0] + arrays[1])
    latency = bench.benchmark_result.nc_latency
    with pytest.warns(nki.NkiPortabilityWarning, match="CPU of this machine: it says nothing of Trainium"):
        low, middle, high = (latency.get_latency_percentile(p) for p in (0, 50, 100))
    seconds = latency.cpu_seconds
    assert len(seconds) == 5
    assert (low, high) == pytest.approx((min(seconds) * 1e6, max(seconds) * 1e6))  # microseconds
    assert low <= middle <= high
    assert "on this CPU" in repr(bench.benchmark_result)


def test_benchmark_runs_a_kernel_that_changes_its_input_once(arrays: Any, make: Any) -> None:
    state, x = make(arrays[0].copy()), make(arrays[1])
    nki.benchmark(warmup=2, iters=3)(kernels.accumulate)(state, x)
    assert np.array_equal(np.asarray(state), arrays[0] + arrays[1])


def test_benchmark_on_two_cores() -> None:
    bench = nki.benchmark(warmup=0, iters=1)(kernels.cores)
    two = bench[2]
    assert np.unique(two(np.zeros((4, 4), np.float32))) == 2
    assert len(two.benchmark_result.cpu_latency.cpu_seconds) == 1
    with pytest.raises(GridError, match="a grid is one number of cores"):
        bench[2, 4]


@pytest.mark.parametrize("numbers", [{"iters": 0}, {"warmup": -1}, {"iters": 1.5}])
def test_benchmark_counts_runs(arrays: Any, numbers: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="no number of runs"):
        nki.benchmark(**numbers)(kernels.add)(*arrays)


def test_profile_leaves_an_artifact_and_no_trace(arrays: Any, make: Any, tmp_path: Path) -> None:
    @nki.profile(
        working_directory=str(tmp_path / "profiles"), save_neff_name="k.neff", save_trace_name="k.ntff", profile_nth=2
    )
    def kernel(a, b):
        return kernels.add(a, b)

    a, b = map(make, arrays)
    with no_neff(), pytest.warns(nki.NkiPortabilityWarning, match=r"no trace 'k.ntff'"):
        assert np.array_equal(np.asarray(kernel(a, b)), arrays[0] + arrays[1])
    assert [p.name for p in (tmp_path / "profiles").iterdir()] == ["k.neff"]
    with pytest.raises(ArtifactError, match=r"k.neff exists"):
        kernel(a, b)
    with no_neff(), pytest.warns(nki.NkiPortabilityWarning, match=r"no trace 'profile.ntff'"):
        nki.profile(kernels.add, working_directory=tmp_path / "profiles", save_neff_name="k.neff", overwrite=True)(a, b)


@pytest.mark.parametrize("folder", [{"save_neff_name": "k.neff"}, {"working_directory": "profiles"}])
def test_profile_needs_an_absolute_folder(arrays: Any, folder: dict[str, Any]) -> None:
    with pytest.raises(KernelArgumentError, match="no absolute path"):
        nki.profile(kernels.add, **folder)(*arrays)


def test_profile_without_the_options_of_beta_1_predicts(arrays: Any) -> None:
    assert nki.profile(kernels.add, target="trn2")(*arrays).latency > 0


@pytest.mark.parametrize("function", [nki.baremetal, nki.benchmark, nki.profile])
def test_unknown_options_are_refused(function: Any) -> None:
    with pytest.raises(KernelArgumentError, match=r"has no option \['iterations'\]"):
        function(kernels.add, iterations=3)


def test_simulate_kernel(arrays: Any, make: Any) -> None:
    a, b = map(make, arrays)
    for kernel in (kernels.add, nki.jit(kernels.add)):
        assert np.array_equal(np.asarray(nki.simulate_kernel(kernel, a, b, scale=2.0)), arrays[0] + 2 * arrays[1])


def test_a_file_that_cannot_be_written(arrays: Any, tmp_path: Path) -> None:
    with no_neff(), pytest.raises(ArtifactError, match="cannot be written"):
        nki.baremetal(kernels.add, save_neff_name=tmp_path)(*arrays)
