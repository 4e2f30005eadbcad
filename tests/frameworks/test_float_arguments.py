"""Float arguments in the frameworks: passed at each eager call in NumPy and PyTorch, compiled into graphs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl
from nki.frameworks.numpy import NumPyFrameworkKernel
from tests.compilation.float_kernels import computed, in_helpers

X = np.linspace(-3, 5, 16 * 8, dtype=np.float32).reshape(16, 8)
RATES = (0.5, 0.125, -2.0, 1 / 3)


def want(rate: float) -> bytes:
    return nki.simulate(computed)(X, rate).tobytes()


def test_eager_tensors_share_one_kernel() -> None:
    kernel = nki.jit(computed)
    x = torch.from_numpy(X)
    for rate in RATES:
        assert kernel(x, rate).numpy().tobytes() == kernel(X, rate).tobytes() == want(rate)
    assert len(kernel._executables) == 2  # the dtypes of PyTorch are other objects


def test_tensors_with_a_gradient_get_kernels_for_their_values() -> None:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, rate):
            ctx.rate = rate
            return kernel(x, rate)

        @staticmethod
        def backward(ctx, gradient):
            return kernel(gradient.contiguous(), ctx.rate), None

    kernel = nki.jit(computed)
    for rate in RATES:
        x = torch.from_numpy(X).clone().requires_grad_()
        y = Scaled.apply(x, rate)
        y.sum().backward()
        assert y.detach().numpy().tobytes() == want(rate)
        ones = np.ones_like(X)
        assert x.grad.numpy().tobytes() == nki.simulate(computed)(ones, rate).tobytes()


def test_a_tensor_that_requires_a_gradient_is_refused_only_when_it_is_asked_for() -> None:
    kernel = nki.jit(computed)
    x = torch.from_numpy(X).clone().requires_grad_()
    for rate in RATES:
        assert kernel(x, rate).detach().numpy().tobytes() == want(rate)


@pytest.mark.filterwarnings("ignore")
def test_graphs_have_the_value_compiled_in() -> None:
    kernel = nki.jit(computed)

    def traced(x, rate):
        return kernel(x, rate) + 0

    compiled = torch.compile(traced, fullgraph=True, backend="aot_eager")
    for rate in RATES:
        assert compiled(torch.from_numpy(X), rate).numpy().tobytes() == want(rate)
    jitted = jax.jit(lambda x, rate: kernel(x, rate), static_argnums=1)
    for rate in RATES:
        assert np.asarray(jitted(jnp.asarray(X), rate)).tobytes() == want(rate)
        assert np.asarray(kernel(jnp.asarray(X), rate)).tobytes() == want(rate)
    assert not any(executable.float_names for executable in kernel._executables.values())


def test_framework_kernels_have_the_value_compiled_in() -> None:
    framework = NumPyFrameworkKernel(func_name="k", func=in_helpers)
    texts = {framework.dump_config(X, rate)[0] for rate in RATES}
    assert len(texts) == len(RATES)


def test_changed_inputs_and_floats_go_together() -> None:
    @nki.jit
    def scale(x, rate):
        t = nl.load(x)
        nisa.tensor_scalar(t, t, nl.multiply, rate)
        nl.store(x, t)
        return x

    for rate in RATES:
        for x in (X.copy(), torch.from_numpy(X.copy())):
            scale(x, rate)
            assert np.asarray(x).tobytes() == (X * np.float32(rate)).tobytes()
