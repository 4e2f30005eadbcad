"""References beside kernels and beside one another, over a finite field: right ones are equal, wrong ones are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.proof_errors import UnknownOperatorError
from nki.proofs import subjects
from nki.proofs.field import FIELDS
from nki.proofs.reals import Reals
from nki.proofs.symbols import Symbols, UndecidedError
from nki.proofs.traced import evaluate_function
from tests.proofs.traced.evaluation import are_same, floats, integers, symbolic
from tests.support.kernel_parts import column, copied, product, returned, transposed

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp, F = jax.numpy, torch.nn.functional

X, W, Q, K, V = floats(8, 16), floats(16, 4), floats(16, 8), floats(16, 8), floats(16, 8)


@nki.jit
def causal(q, k, v):
    length, width = q.shape
    scores = nl.ndarray((length, length), nl.float32)
    top, total = column(scores), column(scores)
    nisa.tensor_scalar(scores, product(transposed(nl.load(q)), transposed(nl.load(k))), nl.multiply, width**-0.5)
    nisa.affine_select(scores, [[-1, length]], 1, scores, -math.inf, cmp_op=nl.greater_equal)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


def numpy_attention(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores = np.where(np.tril(np.ones((16, 16))) == 1, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def torch_attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def jax_attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]


def numpy_attention_in_rows(q: Any, k: Any, v: Any) -> Any:
    out = np.zeros(q.shape)
    for i in range(len(q)):
        weights = np.exp(k[: i + 1] @ q[i] * q.shape[1] ** -0.5)
        out[i] = weights @ v[: i + 1] / weights.sum()
    return out


ATTENTION = (numpy_attention, torch_attention, jax_attention, numpy_attention_in_rows)


def of_kernel(kernel: Callable[..., Any], *arrays: np.ndarray) -> list[Symbols]:
    reals = Reals(FIELDS[0], 1)
    inputs = [reals.variables(f"input {n}", each.shape, each.dtype.kind in "iu") for n, each in enumerate(arrays)]
    return subjects.of_kernel(subjects.Launch(kernel, arrays, {})).evaluate(inputs, reals)


@pytest.mark.parametrize("reference", ATTENTION)
def test_a_kernel_is_its_reference(reference: Callable[..., Any]) -> None:
    assert are_same(of_kernel(causal, Q, K, V), symbolic(reference, Q, K, V))


WRONG = {
    "no scale": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0),
    "no mask": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "mask of one more": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.ones(16, 16).tril(1) > 0),
    "operands in another order": lambda q, k, v: F.scaled_dot_product_attention(k, q, v, is_causal=True),
    "transposed": lambda q, k, v: F.scaled_dot_product_attention(q.T, k.T, v.T, is_causal=True).T,
    "softmax over queries": lambda q, k, v: torch.softmax((q @ k.T * 8**-0.5).tril(), 0) @ v,
    "mask by zero": lambda q, k, v: torch.softmax((q @ k.T * 8**-0.5).tril(), 1) @ v,
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_references_are_unequal(name: str) -> None:
    assert not are_same(symbolic(torch_attention, Q, K, V), symbolic(WRONG[name], Q, K, V))


def _numpy_softmax(x: Any) -> Any:
    weights = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return weights / np.sum(weights, axis=-1, keepdims=True)


def _numpy_layer_norm(x: Any) -> Any:
    deviation = x - x.mean(-1, keepdims=True)
    return deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + 1e-5)


def _numpy_gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


SAME: dict[str, tuple[tuple[Callable[..., Any], ...], tuple[Any, ...]]] = {
    "softmax": (
        (
            _numpy_softmax,
            lambda x: torch.softmax(x, -1),
            lambda x: jax.nn.softmax(x),
            lambda x: np.exp(x) / np.exp(x).sum(1)[:, None],
        ),
        (X,),
    ),
    "log_softmax": (
        (
            lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
            lambda x: F.log_softmax(x, -1),
            jax.nn.log_softmax,
            lambda x: x - jax.nn.logsumexp(x, -1, keepdims=True),
            lambda x: x - torch.logsumexp(x, -1, keepdim=True),
        ),
        (X,),
    ),
    "layer_norm": (
        (
            _numpy_layer_norm,
            lambda x: F.layer_norm(x, (16,)),
            lambda x: (x - jnp.mean(x, -1, keepdims=True)) * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5),
        ),
        (X,),
    ),
    "rms_norm": (
        (
            lambda x: x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6),
            lambda x: F.rms_norm(x, (16,), eps=1e-6),
            lambda x: x * jax.lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6),
        ),
        (X,),
    ),
    "gelu": ((_numpy_gelu, lambda x: F.gelu(x, approximate="tanh"), jax.nn.gelu), (X,)),
    "gelu by erf": ((F.gelu, lambda x: jax.nn.gelu(x, approximate=False)), (X,)),
    "silu": ((lambda x: x / (1 + np.exp(-x)), F.silu, jax.nn.silu, lambda x: x * torch.sigmoid(x)), (X,)),
    "softplus": ((lambda x: np.log1p(np.exp(x)), lambda x: jnp.log(1 + jnp.exp(x))), (X,)),
    "relu": ((lambda x: np.maximum(x, 0), F.relu, jax.nn.relu, lambda x: torch.clamp(x, min=0)), (X,)),
    "relu by selection": (
        (lambda x: np.where(x > 0, x, 0), lambda x: jnp.where(x > 0, x, 0), lambda x: torch.where(x > 0, x, 0)),
        (X,),
    ),
    "linear": (
        (
            lambda x, w: x @ w,
            lambda x, w: F.linear(x, w.T),
            lambda x, w: jnp.einsum("ij,jk->ik", x, w),
            lambda x, w: np.einsum("jk,ij->ik", w, x),
        ),
        (X, W),
    ),
    "convolution": (
        (
            lambda x, w: np.stack([x[i : i + 6].reshape(6, -1)[:, :] @ w for i in range(1)])[0],
            lambda x, w: F.conv1d(x[:6, None], w.T[:, None])[:, :, 0],
        ),
        (X, W),
    ),
    "mask of truths": (
        (
            lambda x: _numpy_softmax(np.where(np.eye(16) == 1, -np.inf, x.T @ x)),
            lambda x: torch.softmax((x.T @ x).masked_fill(torch.eye(16).bool(), -math.inf), -1),
            lambda x: jax.nn.softmax(jnp.where(jnp.eye(16) == 1, -jnp.inf, x.T @ x)),
            lambda x: torch.softmax(x.T @ x + torch.where(torch.eye(16) == 1, -math.inf, 0.0), -1),
        ),
        (X,),
    ),
    "embedding": (
        (
            lambda x, n: x[n],
            lambda x, n: F.embedding(n, x),
            lambda x, n: (n[:, None] == np.arange(8)) @ x,
            lambda x, n: np.take(x, n, axis=0),
        ),
        (X, integers(5, below=8)),
    ),
    "largest": ((lambda x: torch.topk(x, 3).values, lambda x: jax.lax.top_k(x, 3)[0]), (X,)),
    "index of the largest": ((lambda x: x.argmax(1), lambda x: torch.argmax(x, 1), lambda x: jnp.argmax(x, 1)), (X,)),
    "sorted": ((lambda x: np.sort(x), lambda x: torch.sort(x).values, lambda x: jnp.sort(x)), (X,)),
    "angles": (
        (
            lambda x: np.cos(x) ** 2 + np.tan(x),
            lambda x: torch.cos(x).square() + torch.tan(x),
            lambda x: jnp.cos(x) ** 2 + jnp.tan(x),
        ),
        (X,),
    ),
    "running sums": (
        (
            lambda x: np.cumsum(x, 1),
            lambda x: torch.cumsum(x, 1),
            lambda x: jnp.cumsum(x, 1),
            lambda x: x @ np.triu(np.ones((16, 16))),
        ),
        (X,),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_frameworks_mean_the_same(name: str) -> None:
    functions, specs = SAME[name]
    first = symbolic(functions[0], *specs)
    for other in functions[1:]:
        assert are_same(first, symbolic(other, *specs))


UNDECIDED: dict[str, tuple[Callable[..., Any], str]] = {
    "if of NumPy": (lambda x: x if np.sum(x) > 0 else -x, "an `if` or `while`"),
    "if of PyTorch": (lambda x: x if torch.sum(x) > 0 else -x, "what an `if`"),
    "if of JAX": (lambda x: x if jnp.sum(x) > 0 else -x, "what an `if`"),
    "mask of NumPy": (lambda x: x[np.greater(x, 0)], "a mask that depends on the inputs"),
    "places of NumPy": (lambda x: np.where(x > 0), "the places of elements depend on the inputs"),
    "random of PyTorch": (lambda x: x + torch.rand_like(x), "draws random numbers"),
    "dropout": (lambda x: F.dropout(x), "draws random numbers"),
    "random of JAX": (
        lambda x: x + jax.random.normal(jax.random.key(jnp.int32(x[0, 0])), x.shape),
        "draws random numbers",
    ),
    "loop of JAX": (
        lambda x: jax.lax.while_loop(lambda s: s.sum() < 3, lambda s: s + 1, x),
        "how often a `while` loop runs",
    ),
    "branch of JAX": (lambda x: jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.exp, x), "which branch of a `cond`"),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_depends_on_data_is_undecided(name: str) -> None:
    function, message = UNDECIDED[name]
    with pytest.raises(UndecidedError, match=message):
        symbolic(function, X)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: np.linalg.svd(x), "NumPy's np.svd"),
        (lambda x: np.i0(x), "NumPy's np.i0"),
        (lambda x: np.heaviside(x, 0), "NumPy's np.heaviside"),
        (lambda x: torch.linalg.qr(x)[0], "PyTorch's aten.linalg_qr.default"),
        (lambda x: jnp.linalg.qr(x)[0], "JAX's "),
    ],
)
def test_operators_without_a_rule_are_named(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(UnknownOperatorError, match=message) as caught:
        symbolic(function, X)
    assert caught.value.fix


def test_known_inputs_stay_known() -> None:
    numbers = integers(5, below=8)
    reals = Reals(FIELDS[0], 1)
    table = reals.variables("input 0", X.shape, False)
    for function in (lambda x, n: x[n], lambda x, n: F.embedding(n, x), lambda x, n: jnp.take(x, n, axis=0)):
        (found,) = evaluate_function(function, [table, numbers], [X, numbers], reals)
        assert are_same([found], [table.moved(lambda part: part[numbers])])


def test_a_result_that_depends_on_no_input_is_its_numbers() -> None:
    (found,) = symbolic(lambda x: np.arange(4) * 2.0, X)
    assert are_same([found], [Reals(FIELDS[0], 1).constant(np.array([0, 2, 4, 6]))])


def test_truncating_is_not_rounding() -> None:
    rounded = symbolic(lambda x: np.rint(x).astype(np.int32), X)
    assert not are_same(rounded, symbolic(lambda x: x.astype(np.int32), X))
    assert are_same(rounded, symbolic(lambda x: torch.round(x).int(), X))
