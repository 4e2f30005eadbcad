"""Inputs that a kernel changes and does not return: arrays change in place, whatever runs the kernel."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.jax
import nki.language as nl
from nki.base.errors import InputWrittenError, KernelArgumentError, RankArgumentError, TextError
from nki.compilation.executable import Executable
from nki.frameworks.backend_config import BackendConfig
from nki.frameworks.kernel_adapter import find
from nki.frameworks.torch import PyTorchFrameworkKernel
from nki.harness.compilation import CompileOptions, compile_to_bir
from nki.harness.standalone import run_from_bir
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.sweeps.run import sweep
from tests.frameworks.kernels import add, put

X = np.arange(24, dtype=np.float32).reshape(4, 6) / 8
RUNS = pytest.mark.parametrize("run", [lambda k: k, nki.simulate], ids=["native", "simulator"])
FRAMEWORKS = pytest.mark.parametrize("made", [lambda a: a, torch.from_numpy], ids=["numpy", "torch"])


def zeros():
    return np.zeros((8, 6), np.float32)


def holds(cache, row):
    """True if ``cache`` has X from ``row`` on, and 0 elsewhere."""
    expected = zeros()
    expected[row : row + 4] = X
    return np.array_equal(np.asarray(cache), expected)


@RUNS
@FRAMEWORKS
def test_arrays_change_and_only_the_result_is_returned(run, made):
    cache = made(zeros())
    result = run(put)(cache, made(X.copy()), row=2)
    assert type(result) is type(cache) and holds(cache, 2) and np.array_equal(np.asarray(result), 2 * X)


@RUNS
@FRAMEWORKS
@pytest.mark.parametrize("view", [lambda a: a[::2, :6], lambda a: a[8:, 3:9], lambda a: a[:6, :8].T])
def test_views_change_where_they_are(run, made, view):
    base = np.ones((16, 12), np.float32)
    expected = base.copy()
    view(expected)[1:5] = X
    run(put)(view(made(base)), made(X.copy()), row=1)
    assert np.array_equal(base, expected)


@RUNS
@FRAMEWORKS
def test_an_argument_that_shares_its_memory(run, made):
    """The kernel sees each argument as it was."""
    cache = made(zeros())
    cache[4:] = made(X.copy())
    result = run(put)(cache, cache[4:], row=2)
    assert np.array_equal(np.asarray(cache[2:6]), X) and np.array_equal(np.asarray(result), 2 * X)


@RUNS
def test_what_cannot_be_written_is_refused(run):
    fixed = zeros()
    fixed.flags.writeable = False
    with pytest.raises(KernelArgumentError, match=r"'cache', an array that cannot be written to"):
        run(put)(fixed, X)
    spread = np.lib.stride_tricks.as_strided(np.zeros(6, np.float32), (8, 6), (0, 4))
    with pytest.raises(KernelArgumentError, match="'cache', a broadcast tensor"):
        run(put)(spread, X)
    with pytest.raises(KernelArgumentError, match="'cache', a broadcast tensor"):
        run(put)(torch.zeros(1, 6).expand(8, 6), torch.from_numpy(X))
    assert not spread.any()


@RUNS
def test_each_core_may_change_another_input(run):
    @nki.jit
    def kernel(a, b, x):
        tile = nl.load(x)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="out")
        if nl.program_id(0) == 0:
            nisa.dma_copy(dst=a, src=tile)
            nisa.dma_copy(dst=out, src=tile)
        else:
            nisa.dma_copy(dst=b, src=tile)
        return out

    a, b = np.zeros_like(X), np.zeros_like(X)
    assert np.array_equal(run(kernel[2])(a, b, X), X)
    assert np.array_equal(a, X) and np.array_equal(b, X)


@RUNS
def test_a_tuple_of_one_reshaped_result_stays_one(run):
    @nki.jit
    def kernel(a, x):
        tile = nl.load(x)
        nisa.dma_copy(dst=a, src=tile)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=out, src=tile)
        return (out.reshape((24, 1)),)

    a = np.zeros_like(X)
    (result,) = run(kernel)(a, X)
    assert result.shape == (24, 1) and np.array_equal(a, X)


def test_a_checked_launch():
    cache = zeros()
    nki.jit(put, check=True)(cache, X, row=4)
    assert holds(cache, 4)


def test_measurements_change_copies():
    cache = zeros()
    nki.benchmark(put)(cache, X)
    nki.profile(put)(cache, X)
    assert not cache.any()
    assert np.array_equal(nki.baremetal(put)(cache, X), 2 * X) and holds(cache, 0)  # this one calls the kernel


# JAX


@RUNS
def test_arrays_of_jax_cannot_change(run):
    for call in (run(put), jax.jit(run(put)), lambda c, x: jax.vmap(run(put))(c[None], x[None])):
        with pytest.raises(
            InputWrittenError, match=r"'cache', an input that kernel 'put' does not return\n(.*\n)*  fix: r"
        ):
            call(jnp.zeros((8, 6)), jnp.asarray(X))
    with pytest.raises(InputWrittenError):
        nki.jax.partitioned(put, "a b, c b -> c b", split="b")(jnp.zeros((8, 6)), jnp.asarray(X))


# Several ranks


@RUNS
@FRAMEWORKS
def test_each_rank_changes_an_array_of_its_own(run, made):
    x, caches = made(X.copy()), [made(zeros()) for _ in range(3)]

    def launch(cache):
        with nki.ranks(3):
            return run(put)(cache, x, row=1)

    assert all(np.array_equal(np.asarray(result), 2 * X) for result in launch(caches))
    assert all(holds(cache, 1) for cache in caches)
    whole = made(np.zeros((24, 6), np.float32))
    launch([whole[:8], whole[8:16], whole[16:]])
    assert all(holds(part, 1) for part in (whole[:8], whole[8:16], whole[16:]))
    one = made(zeros())
    for shared in (one, [one, one, caches[0]], [whole[:8], whole[7:15], whole[16:]]):
        before = np.asarray(whole).copy()
        with pytest.raises(RankArgumentError, match=r"'put' changes 'cache', .* in common\n.*list .* \[cache.copy\(\)"):
            launch(shared)
        assert not np.asarray(one).any() and np.array_equal(np.asarray(whole), before)


def test_simulated_ranks_are_asked_too():
    with pytest.raises(RankArgumentError, match="changes 'cache'"):
        nki.simulate(put, ranks=2)(zeros(), X)
    results = nki.simulate(put, ranks=2)([a := zeros(), zeros()], X)
    assert holds(a, 0) and len(results) == 2


# Programs as text, files and graphs


def test_text_and_artifacts_keep_it():
    executable = put.compile(zeros(), X)
    program = executable.kernel
    assert "  return out changes cache\n" in show(program) and parse(show(program)) == program
    assert program != parse(show(program).replace(" changes cache", ""))
    loaded = Executable.load(executable.artifact())
    assert loaded.changes == {1: 0} and loaded.returned == 1 and [s.name for s in loaded.outputs] == ["out", "cache"]


@pytest.mark.parametrize("end", ["return out changes out", "return out changes", "return out changes 7"])
def test_text_that_changes_what_is_no_input(end):
    text = show(put.compile(zeros(), X).kernel)
    with pytest.raises(TextError):
        parse(text.replace("return out changes cache", end))


def test_the_call_of_a_framework_has_it_as_an_aliased_output():
    text, inputs, outputs = PyTorchFrameworkKernel(func=put).dump_config(torch.zeros(8, 6), torch.zeros(4, 6))
    config = BackendConfig.decode(text)
    assert inputs == ["cache", "x"] and len(outputs) == 2 and config.aliases == ((0, 1),)
    assert find(config.binary).returned == 1


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")
def test_the_harness_names_what_is_returned(tmp_path):
    options = CompileOptions(artifacts_dir=str(tmp_path))
    nir = compile_to_bir(put, inputs={"cache": zeros(), "x": X}, compile_opts=options, output_names=["out"])
    assert nir.descriptor.to_input_output_aliases_dict() == {"cache": "cache"}
    assert np.array_equal(run_from_bir(nir, options, {"cache": zeros(), "x": X}), 2 * X)


# Sweeps


def also_the_cache(cache, x):
    cache[:4] = x
    return 2 * x, cache


def a_wrong_cache(cache, x):
    return 2 * x, cache


def test_sweeps_compare_results_and_changed_inputs_if_asked():
    space = {"arguments": {"cache": "8x6:float32", "x": "4x6:float32"}}
    for reference in (lambda cache, x: 2 * x, also_the_cache):
        table = sweep(put, space, reference=reference, processes=0)
        assert table.failed == 0 and table.judged
    assert sweep(put, space, reference=a_wrong_cache, processes=0).failed == 1


def test_a_kernel_that_changes_nothing_has_no_hidden_output():
    signature = add.compile(X, X).kernel.signature
    assert signature.hidden == 0 and signature.returned == signature.outputs
