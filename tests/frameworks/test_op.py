"""``nki.torch.op`` and ``nki.jax.op``: a kernel with its gradient, in every way in which a framework differentiates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import nki.jax
import nki.torch
from nki.base.errors import ArgumentError
from nki.base.framework_errors import NotDifferentiableError

from .bridges import compiled
from .kernels import (
    add,
    multiply,
    scale_in_place,
    scaled_product,
    scaled_product_backward,
    sum_and_scaled,
    taken,
    weighted,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*autograd.function.Function:DeprecationWarning"),
]

A = np.arange(24, dtype=np.float32).reshape(4, 6) / 8
B = A[::-1] * 3 + 1
W = np.linspace(0.5, 2, 6, dtype=np.float32)[None]


@dataclass(frozen=True)
class Way:
    """How a framework finds the gradients of a function to one number, for all of its tensors."""

    op: Callable[..., Any]
    tensor: Callable[[Any], Any]
    gradients: Callable[[Any, Any], Any]


def by_backward(function: Any, tensors: Any) -> Any:
    leaves = [t.clone().requires_grad_() for t in tensors]
    function(*leaves).backward()
    return [leaf.grad for leaf in leaves]


def by_grad(grad: Any) -> Callable[[Any, Any], Any]:
    return lambda function, tensors: grad(function, argnums=tuple(range(len(tensors))))(*tensors)


def in_torch(gradients: Any) -> Way:
    return Way(nki.torch.op, lambda a: torch.from_numpy(a.copy()), gradients)


def in_jax(gradients: Any) -> Way:
    return Way(nki.jax.op, jnp.asarray, gradients)


def checkpointed(reentrant: bool, wrap: Any = lambda f: f) -> Way:
    kept = lambda f: wrap(lambda *tensors: checkpoint(f, *tensors, use_reentrant=reentrant))  # noqa: E731
    return in_torch(lambda f, tensors: by_backward(kept(f), tensors))


def batched(vmap: Any, grad: Any) -> Callable[[Any, Any], Any]:
    def gradients(function: Any, tensors: Any) -> Any:
        found = vmap(grad(function, argnums=tuple(range(len(tensors)))))(*(t[None] for t in tensors))
        return [gradient[0] for gradient in found]

    return gradients


TORCH, JAX = in_torch(by_backward), in_jax(by_grad(jax.grad))
ENGINE = {
    "torch": TORCH,
    "torch.compile": in_torch(lambda f, tensors: by_backward(compiled(f, "eager"), tensors)),
    "aot_eager": in_torch(lambda f, tensors: by_backward(compiled(f), tensors)),
    "inductor": in_torch(lambda f, tensors: by_backward(compiled(f, "inductor"), tensors)),
    "checkpoint": checkpointed(False),
    "checkpoint, reentrant": checkpointed(True),
    "checkpoint, compiled": checkpointed(False, compiled),
    "checkpoint, reentrant, compiled": checkpointed(True, compiled),
}
"""Where PyTorch's own engine works."""
WAYS = {
    **ENGINE,
    "torch.func": in_torch(by_grad(torch.func.grad)),
    "torch.func, compiled": in_torch(lambda f, ts: compiled(lambda *x: by_grad(torch.func.grad)(f, x))(*ts)),
    "torch.vmap": in_torch(batched(torch.vmap, torch.func.grad)),
    "jax": JAX,
    "grad of jit": in_jax(lambda f, tensors: JAX.gradients(jax.jit(f), tensors)),
    "jit of grad": in_jax(lambda f, tensors: jax.jit(lambda *x: JAX.gradients(f, x))(*tensors)),
    "jax.checkpoint": in_jax(lambda f, tensors: JAX.gradients(jax.checkpoint(f), tensors)),
    "jax.vmap": in_jax(batched(jax.vmap, jax.grad)),
}
BOTH = pytest.mark.parametrize("way", [TORCH, JAX], ids=["torch", "jax"])


def reference(x: Any, w: Any, scale: float = 2.0) -> Any:
    return x * w * scale


def by_engine(x: Any, w: Any, dy: Any, scale: float) -> Any:
    with torch.enable_grad():
        leaves = [t.detach().requires_grad_() for t in (x, w)]
        return torch.autograd.grad(reference(*leaves, scale), leaves, dy)


def engine(x: Any, w: Any, dy: Any, scale: float) -> Any:
    return by_engine(x, w, dy, scale)


def with_backward(x: Any, w: Any, dy: Any, scale: float) -> Any:
    with torch.enable_grad():
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        (reference(x, w, scale) * dy).sum().backward()
    return x.grad, w.grad


OPERATORS: dict[str, tuple[Any, Any]] = {
    "kernel": (lambda op: op(scaled_product, backward=scaled_product_backward), B),
    "reference": (lambda op: op(weighted, reference=reference), W),
    "torch.autograd.grad": (lambda op: op(weighted, by_engine), W),
    "torch.autograd.grad in a helper": (lambda op: op(weighted, engine), W),
    "backward()": (lambda op: op(weighted, with_backward), W),
}
"""Operators for the product of three factors, and their second tensor."""
ASKS_ENGINE = [name for name, _ in list(OPERATORS.items())[2:]]


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch.compiler.reset()


def close(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("operator", "way"),
    [(o, w) for o in OPERATORS for w in (ENGINE if o in ASKS_ENGINE else WAYS)],
)
def test_gradients(operator: str, way: str) -> None:
    make, second = OPERATORS[operator]
    op, tensors = make(WAYS[way].op), [WAYS[way].tensor(a) for a in (A, second)]

    def loss(f: Any) -> Any:
        return lambda x, w: (f(x, w, scale=3.0) * x).sum()

    close(WAYS[way].gradients(loss(op), tensors), TORCH.gradients(loss(reference), map(TORCH.tensor, (A, second))))


@pytest.mark.parametrize("operator", ASKS_ENGINE)
def test_pytorchs_engine_does_not_work_in_its_transforms(operator: str) -> None:
    op = OPERATORS[operator][0](nki.torch.op)
    with pytest.raises(RuntimeError, match=r"functorch transforms \(e.g. grad, vjp"):
        torch.func.grad(lambda x, w: op(x, w).sum())(TORCH.tensor(A), TORCH.tensor(W))


@BOTH
def test_values_defaults_and_names(way: Way) -> None:
    a, b = way.tensor(A), way.tensor(B)
    product = OPERATORS["kernel"][0](way.op)
    np.testing.assert_array_equal(product(a, b), 2 * A * B)
    np.testing.assert_array_equal(product(scale=3.0, b=b, a=a), scaled_product(a, b, 3.0))
    close(way.gradients(lambda x: product(x, b).sum(), [a]), [2 * B])
    close(way.gradients(lambda x: product(x, scale=5.0, b=b).sum(), [a]), [5 * B])


@BOTH
def test_two_results_and_an_unused_one(way: Way) -> None:
    def backward(a: Any, b: Any, total: Any, scaled: Any, d_total: Any, d_scaled: Any, scale: float) -> Any:
        np.testing.assert_array_equal(scaled.shape, (1, 6))
        return d_total + first * (scale * d_scaled), d_total + 0 * (total + b)

    first = way.tensor(np.eye(4, 1, dtype=np.float32))
    both = way.op(sum_and_scaled, backward, save="all")
    tensors = [way.tensor(a) for a in (A, B)]
    row = np.zeros_like(A)
    row[0] = 3

    def total(a: Any, b: Any) -> Any:
        one, two = both(a, b, scale=3.0)
        return (one * b).sum() + (two * 2).sum()

    close(way.gradients(total, tensors), [B + 2 * row, A + 2 * B])
    close(way.gradients(lambda a, b: both(a, b, scale=3.0)[1].sum(), tensors), [row, 0 * B])


@BOTH
@pytest.mark.parametrize("save", ["results", "all"])
def test_results_that_the_backward_alone_sees(way: Way, save: str) -> None:
    def backward(*saved: Any) -> Any:
        *_, total, scaled, dy = saved
        return dy * total, dy + scaled[0, 0]

    hidden = way.op(sum_and_scaled, backward, save=save, kept=1)
    assert isinstance(hidden(way.tensor(A), way.tensor(B)), torch.Tensor | jax.Array)
    found = way.gradients(lambda a, b: (hidden(a, b, 5.0) * way.tensor(B)).sum(), [way.tensor(A), way.tensor(B)])
    close(found, [B * (A + B), B + 5 * A[0, 0]])
    plain = way.op(sum_and_scaled, reference=lambda a, b: a + b, kept=1)
    close(way.gradients(lambda a: plain(a, way.tensor(B)).sum(), [way.tensor(A)]), [np.ones_like(A)])


@BOTH
def test_tensors_without_a_gradient(way: Way) -> None:
    a, b = way.tensor(A), way.tensor(B)
    table = way.op(multiply, lambda a, b, dy: dy * b)
    close(way.gradients(lambda x: table(x, b).sum(), [a]), [B])
    with pytest.raises(NotDifferentiableError, match=r"no gradient of tensor 2, which (requires|is)"):
        way.gradients(lambda x, y: table(x, y).sum(), [a, b])
    unknown = way.op(multiply, lambda a, b, dy: (None, dy * a))
    with pytest.raises(NotDifferentiableError, match="tensor 1"):
        way.gradients(lambda x: unknown(x, b).sum(), [a])
    rows = way.tensor(np.arange(4, dtype=np.int32)[:, None])
    counted = way.op(taken, reference=lambda x, rows, scale=1.0: x * scale)
    close(way.gradients(lambda x: counted(x, rows, scale=3.0).sum(), [a]), [np.full_like(A, 3)])


@BOTH
def test_mistakes(way: Way) -> None:
    tensors = [way.tensor(A), way.tensor(B)]
    surplus = way.op(add, lambda a, b, dy: (dy, dy, dy))
    with pytest.raises(ArgumentError, match=r"3 gradients, and (the operator|it) takes 2"):
        way.gradients(lambda a, b: surplus(a, b).sum(), tensors)
    with pytest.raises(ArgumentError, match="save='input' is none of 'inputs', 'results', 'all'"):
        way.op(add, add, save="input")
    with pytest.raises(ArgumentError, match="neither a backward nor a reference"):
        way.op(multiply)
    with pytest.raises(ArgumentError, match="was given both"):
        way.op(multiply, lambda *_: None, reference=lambda a, b: a)
    with pytest.raises(ArgumentError, match="needs the inputs"):
        way.op(multiply, reference=lambda a, b: a, save="results")
    wrong = way.op(multiply, reference=lambda a, b: (a * b)[:1])
    with pytest.raises(ArgumentError, match=r"reference .* the shapes \[\(1, 6\)\], and the operator \[\(4, 6\)\]"):
        way.gradients(lambda a, b: wrong(a, b).sum(), tensors)


def test_a_reference_changes_no_argument() -> None:
    with pytest.raises(ArgumentError, match="changes no argument"):
        nki.torch.op(scale_in_place, reference=lambda a: a, changes=["a"])


@BOTH
def test_in_the_simulator(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    product = OPERATORS["kernel"][0](way.op)
    loss, tensors = lambda a, b: (product(a, b, 3.0) * b).sum(), [way.tensor(A), way.tensor(B)]
    native = way.gradients(loss, tensors)
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    for one, other in zip(way.gradients(loss, tensors), native, strict=True):
        np.testing.assert_array_equal(one, other)


@BOTH
def test_a_backward_of_operators_has_a_derivative(way: Way) -> None:
    again = way.op(multiply, lambda a, b, dy: (again(dy, b), again(dy, a)))
    b, grad = way.tensor(B), torch.func.grad if way is TORCH else jax.grad

    def slope(a: Any) -> Any:
        return grad(lambda x: (again(x, b) ** 2).sum())(a).sum()

    close(way.gradients(slope, [way.tensor(A)]), [2 * B * B])
    square = way.op(multiply, reference=lambda a, b: a * b)
    close(way.gradients(lambda x: grad(lambda y: square(y, y).sum())(x).sum(), [b]), [np.full_like(B, 2)])


@BOTH
def test_a_batch_with_a_shared_tensor(way: Way) -> None:
    product, vmap = OPERATORS["kernel"][0](way.op), torch.vmap if way is TORCH else jax.vmap
    batch, b = way.tensor(np.stack([A, B])), way.tensor(B)

    def total(x: Any) -> Any:
        return (vmap(lambda a: product(a, b, scale=3.0))(x) * b).sum()

    close(way.gradients(total, [batch]), [np.stack([3 * B * B] * 2)])


def test_a_scan() -> None:
    product, steps = OPERATORS["kernel"][0](nki.jax.op), jnp.stack([A, B]) / 4

    def scanned(a: Any) -> Any:
        return jax.lax.scan(lambda c, x: (product(c, x, scale=1.0), None), a, steps)[0].sum()

    close(JAX.gradients(scanned, [jnp.asarray(A)]), [A * B / 16])


@BOTH
def test_a_bare_kernel_stays_without_a_gradient(way: Way) -> None:
    with pytest.raises(NotDifferentiableError, match=r"'multiply' has no derivative\n.*nki\.(torch|jax)\.op\(kernel"):
        way.gradients(lambda x: multiply(x, x).sum(), [way.tensor(A)])
