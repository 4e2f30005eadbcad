"""Operators with the gradient of a reference, and backwards that ask PyTorch's engine: eager and in every transform."""

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
import nki.torch
from nki.base.errors import ArgumentError, NotDifferentiableError

from .kernels import multiply, scale_in_place, sum_and_scaled, weighted

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning"),
]

A = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 8 + 0.5
W = torch.linspace(0.5, 2, 6)[None]


@nki.jit
def taken(x, rows, scale=1.0):
    """scale x, and the row numbers as they came."""
    tile, out = nl.load(x), nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.tensor_scalar(tile, tile, nl.multiply, scale)
    nl.store(out, tile)
    return out


def reference(x, w, scale=2.0):
    return x * w * scale


WEIGHTED = nki.torch.op(weighted, reference=reference)


def by_engine(x, w, dy, scale):
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (x, w)]
        return torch.autograd.grad(reference(*leaves, scale), leaves, dy)


def engine(x, w, dy, scale):
    return by_engine(x, w, dy, scale)


def by_backward(x, w, dy, scale):
    with torch.enable_grad():
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        (reference(x, w, scale) * dy).sum().backward()
    return x.grad, w.grad


ENGINES = {
    "grad": nki.torch.op(weighted, by_engine),
    "grad in a helper": nki.torch.op(weighted, engine),
    "backward": nki.torch.op(weighted, by_backward),
}
OPERATORS = pytest.mark.parametrize("op", [WEIGHTED, *ENGINES.values()], ids=["reference", *ENGINES])


def gradients(function):
    leaves = [t.clone().requires_grad_() for t in (A, W)]
    (function(*leaves) * A).sum().backward()
    return [leaf.grad for leaf in leaves]


EXPECTED = gradients(lambda x, w: reference(x, w, 3.0))


def close(found):
    for got, expected in zip(found, EXPECTED, strict=True):
        torch.testing.assert_close(got, expected)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


@OPERATORS
def test_eager(op):
    close(gradients(lambda x, w: op(x, w, 3.0)))
    close(gradients(lambda x, w: op(w=w, x=x, scale=3.0)))
    assert torch.equal(op(A, W), weighted(A, W))


@OPERATORS
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_in_one_graph(op, backend):
    close(gradients(torch.compile(lambda x, w: op(x, w, 3.0), fullgraph=True, backend=backend)))


@OPERATORS
def test_transforms(op):
    def loss(x, w):
        return (op(x, w, 3.0) * A).sum()

    if op is not WEIGHTED:  # PyTorch's engine does not work there, and PyTorch says so
        with pytest.raises(RuntimeError, match=r"functorch transforms \(e.g. grad, vjp"):
            torch.func.grad(loss, argnums=(0, 1))(A, W)
        return
    close(torch.func.grad(loss, argnums=(0, 1))(A, W))
    close(torch.compile(torch.func.grad(loss, argnums=(0, 1)), fullgraph=True, backend="aot_eager")(A, W))
    close([g[0] for g in torch.vmap(torch.func.grad(loss, argnums=(0, 1)))(A[None], W[None])])


def test_the_second_derivative_is_the_references():
    a = A.clone().requires_grad_()
    (first,) = torch.autograd.grad(nki.torch.op(multiply, reference=torch.mul)(a, a).sum(), a, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), a)
    assert torch.equal(first, 2 * A) and torch.equal(second, torch.full_like(A, 2))


def test_export_keeps_the_kernel():
    class Module(torch.nn.Module):
        def forward(self, x, w):
            return WEIGHTED(x, w, 3.0)

    program = torch.export.export(Module(), (A, W))
    assert "open_nki.launch" in program.graph_module.code
    assert torch.equal(program.module()(A + 1, W), weighted(A + 1, W, 3.0))


def test_arguments_that_are_no_floats_have_no_gradient():
    op = nki.torch.op(taken, reference=lambda x, rows, scale=1.0: x * scale)
    a, rows = A.clone().requires_grad_(), torch.arange(4, dtype=torch.int32)[:, None]
    op(a, rows, scale=3.0).sum().backward()
    assert torch.equal(a.grad, torch.full_like(A, 3))


def test_several_results_and_lower_precision():
    op = nki.torch.op(sum_and_scaled, reference=lambda a, b, scale=2.0, mode="": (a + b, a[:1] * scale))
    half = A.bfloat16().requires_grad_()
    total, scaled = op(half, half.detach(), 4.0)
    (total.sum() + scaled.sum()).backward()
    assert half.grad.dtype == torch.bfloat16 and torch.equal(half.grad[1:], torch.ones_like(half.grad[1:]))
    assert torch.equal(half.grad[0], torch.full((6,), 5.0, dtype=torch.bfloat16))
    wide = nki.torch.op(multiply, reference=lambda a, b: (a.float() * b.float()).to(a.dtype))
    leaf = A.bfloat16().requires_grad_()
    wide(leaf, leaf.detach()).sum().backward()
    assert torch.equal(leaf.grad, A.bfloat16())


def test_a_result_that_is_hidden():
    op = nki.torch.op(sum_and_scaled, reference=lambda a, b: a + b, kept=1)
    a = A.clone().requires_grad_()
    op(a, A).sum().backward()
    assert torch.equal(a.grad, torch.ones_like(A))


@pytest.mark.parametrize("make", [nki.torch.op, nki.jax.op], ids=["torch", "jax"])
def test_mistakes(make):
    with pytest.raises(ArgumentError, match="neither a backward nor a reference"):
        make(multiply)
    with pytest.raises(ArgumentError, match="was given both"):
        make(multiply, lambda *_: None, reference=lambda a, b: a)
    with pytest.raises(ArgumentError, match="needs the inputs"):
        make(multiply, reference=lambda a, b: a, save="results")


def test_a_reference_of_other_results():
    with pytest.raises(ArgumentError, match="changes no argument"):
        nki.torch.op(scale_in_place, reference=lambda a: a, changes=["a"])
    wrong = nki.torch.op(multiply, reference=lambda a, b: (a * b)[:1])
    with pytest.raises(
        ArgumentError, match=r"reference .* returns the shapes \[\(1, 6\)\], and the operator \[\(4, 6\)\]"
    ):
        wrong(A.clone().requires_grad_(), A).sum().backward()
    with pytest.raises(ArgumentError, match=r"returns the shapes \[\(1, 6\)\]"):
        jax.grad(lambda a: nki.jax.op(multiply, reference=lambda a, b: (a * b)[:1])(a, a).sum())(jnp.ones((4, 6)))


def test_jax():
    op = nki.jax.op(weighted, reference=reference)
    a, w = jnp.asarray(A.numpy()), jnp.asarray(W.numpy())

    def loss(x, w, f=op):
        return (f(x, w, scale=3.0) * a).sum()

    for transform in (lambda f: f, jax.jit, jax.checkpoint):
        for got, expected in zip(jax.grad(transform(loss), argnums=(0, 1))(a, w), EXPECTED, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
    (batched,) = jax.vmap(jax.grad(loss))(a[None], w[None])
    np.testing.assert_allclose(batched, EXPECTED[0], rtol=1e-6)
    rows = jnp.arange(4, dtype=jnp.int32)[:, None]
    counted = nki.jax.op(taken, reference=lambda x, rows, scale=1.0: x * scale)
    assert (jax.grad(lambda x: counted(x, rows, scale=3.0).sum())(a) == 3).all()
    assert (
        jax.grad(lambda x: jax.grad(lambda y: nki.jax.op(multiply, reference=jnp.multiply)(y, y).sum())(x).sum())(a)
        == 2
    ).all()


def test_a_bare_kernel_stays_without():
    with pytest.raises(NotDifferentiableError):
        jax.grad(lambda x: multiply(x, x).sum())(jnp.ones((4, 6)))
