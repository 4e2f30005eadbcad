"""A kernel as an operator of PyTorch and JAX programs, forward and backward, as in the tutorial on custom operators.

The tutorial is "NKI Kernel as a Framework Custom Operator"; it computes a * b * (a + b) with the sum in a kernel. Its
programs run here on the CPU.
"""

from __future__ import annotations

import base64
import json
import re

import jax
import jax.numpy as jnp
import pytest
import torch

import nki
import nki.isa as nisa
import nki.language as nl

# The documents still write `nl.affine_range`.
pytestmark = pytest.mark.filterwarnings("ignore:.*affine_range:nki.base.warning.NkiDeprecationWarning")


SHAPE = (256, 1024)


with pytest.warns(nki.NkiDeprecationWarning, match="platform_target"):

    @nki.jit(platform_target="trn1")
    def nki_tensor_add(a_input, b_input):
        """a_input + b_input, for equal shapes of whole tiles of 128 by 512."""
        c_output = nl.ndarray(a_input.shape, dtype=a_input.dtype, buffer=nl.shared_hbm)

        M, N = a_input.shape
        TILE_M = 128
        TILE_N = 512

        assert a_input.shape == b_input.shape, f"shapes {a_input.shape} and {b_input.shape} differ"
        assert a_input.dtype == b_input.dtype, f"dtypes {a_input.dtype} and {b_input.dtype} differ"
        assert M % TILE_M == 0, f"{M} rows are not a multiple of {TILE_M}"
        assert N % TILE_N == 0, f"{N} columns are not a multiple of {TILE_N}"

        for m in nl.affine_range(M // TILE_M):
            for n in nl.affine_range(N // TILE_N):
                a_tile = nl.ndarray(shape=(TILE_M, TILE_N), dtype=a_input.dtype, buffer=nl.sbuf)
                b_tile = nl.ndarray(shape=(TILE_M, TILE_N), dtype=b_input.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a_tile, src=a_input[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N])
                nisa.dma_copy(dst=b_tile, src=b_input[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N])
                c_tile = nl.ndarray(shape=(TILE_M, TILE_N), dtype=a_input.dtype, buffer=nl.sbuf)
                nisa.tensor_tensor(dst=c_tile, data1=a_tile, data2=b_tile, op=nl.add)
                nisa.dma_copy(dst=c_output[m * TILE_M : (m + 1) * TILE_M, n * TILE_N : (n + 1) * TILE_N], src=c_tile)

        return c_output


# PyTorch


class NkiAddFunc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return nki_tensor_add(a, b)

    @staticmethod
    def backward(ctx, dy, *args):
        return dy, dy


def torch_inputs():
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(SHAPE, dtype=torch.float32, generator=generator) for _ in range(2))


def test_torch():
    device = torch.device("cpu")
    a, b = (t.to(device) for t in torch_inputs())
    c = nki_tensor_add(a, b)
    out = a * b * c
    assert torch.equal(out, a * b * (a + b))


def test_torch_training():
    a, b = (t.detach().requires_grad_() for t in torch_inputs())
    c = NkiAddFunc.apply(a, b)
    out = a * b * c
    loss = out.sum()
    loss.backward()

    expected_a, expected_b = (t.detach().requires_grad_() for t in torch_inputs())
    (expected_a * expected_b * (expected_a + expected_b)).sum().backward()
    assert torch.equal(a.grad, expected_a.grad) and torch.equal(b.grad, expected_b.grad)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning")
def test_torch_compiled():
    @torch.compile(fullgraph=True, backend="aot_eager")
    def program(a, b):
        return a * b * nki_tensor_add(a, b)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def loss(a, b):
        return (NkiAddFunc.apply(a, b) * a * b).sum()

    a, b = torch_inputs()
    assert torch.equal(program(a, b), a * b * (a + b))
    a.requires_grad_()
    loss(a, b).backward()
    assert torch.equal(a.grad, torch.autograd.grad((a * b * (a + b)).sum(), a)[0])


# JAX


@jax.jit
def jax_customop_tutorial(a, b):
    c = nki_tensor_add(a, b)
    return a * b * c


@jax.custom_vjp
def nki_add_func(a, b):
    return nki_tensor_add(a, b)


def f_forward(a, b):
    return nki_add_func(a, b), (a, b)


def f_backward(res, grad):
    return grad, grad


nki_add_func.defvjp(f_forward, f_backward)


@jax.jit
def jax_customop_tutorial_and_grad(a, b):
    out = nki_add_func(a, b) * a * b
    grad = jax.grad(lambda x, y: (nki_add_func(x, y) * x * y).sum(), argnums=(0, 1))(a, b)
    return out, *grad


def jax_inputs():
    seed = jax.random.PRNGKey(0)
    seed_a, seed_b = jax.random.split(seed)
    a = jax.random.normal(seed_a, SHAPE, dtype=jnp.float32)
    b = jax.random.normal(seed_b, SHAPE, dtype=jnp.float32)
    return a, b


def test_jax():
    a, b = jax_inputs()
    expected = jax.jit(lambda a, b: a * b * (a + b))(a, b)
    assert bool((jax_customop_tutorial(a, b) == expected).all())
    assert bool((a * b * nki_tensor_add(a, b) == expected).all())


def test_jax_graph():
    a, b = jax_inputs()
    text = jax.jit(jax_customop_tutorial).lower(a, b).compile().runtime_executable().hlo_modules()[0].to_string()
    (line,) = (x for x in text.splitlines() if "custom-call(" in x)
    assert "f32[256,1024]" in line and 'custom_call_target="AwsNeuronCustomNativeKernel"' in line
    config = json.loads(base64.b64decode(re.search(r'backend_config.*"(eyJ[^"]+)"', line)[1]))
    assert config["kernel_version"] == 1 and config["func_name"] == "nki_tensor_add"
    assert config["klir_binary"]["input_names"] == ["a_input", "b_input"]
    assert len(config["klir_binary"]["output_names"]) == 1
    assert config["grid"] == [] and config["has_collectives"] is False


def test_jax_training():
    a, b = jax_inputs()
    c, grad_a, grad_b = jax_customop_tutorial_and_grad(a, b)

    @jax.jit
    def expected(a, b):
        grad = jax.grad(lambda x, y: ((x + y) * x * y).sum(), argnums=(0, 1))(a, b)
        return (a + b) * a * b, *grad

    for got, wanted in zip((c, grad_a, grad_b), expected(a, b), strict=True):
        assert bool(jnp.allclose(got, wanted, rtol=1e-6, atol=1e-6))
