"""JAX's functions by the rules of a proof, beside JAX itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from nki.proofs.traced.elements import listed
from tests.proofs.traced.evaluation import assert_close, floats, in_floats, integers, positive, unit

jax = pytest.importorskip("jax")
jnp = jax.numpy

X, Y, P, U, N = floats(4, 6), floats(4, 6, seed=1), positive(4, 6), unit(4, 6), integers(4, 6)
B, C, V = floats(2, 4, 6), floats(2, 6, 5), floats(6)
Q, K, Z = (floats(2, 8, 3, 4, seed=seed) for seed in range(3))
PLANE, KERNEL = floats(1, 4, 7, 8), floats(6, 2, 3, 2)

ELEMENTWISE = {
    **{
        name: (getattr(jnp, name), (X,))
        for name in listed(
            "negative abs exp exp2 expm1 sin cos tan sinh cosh tanh arctan arcsinh sign square floor "
            "ceil rint trunc cbrt isfinite isinf isnan logical_not"
        )
    },
    **{name: (getattr(jnp, name), (P,)) for name in listed("log log2 log10 log1p sqrt reciprocal")},
    **{name: (getattr(jnp, name), (U,)) for name in listed("arcsin arccos arctanh")},
    **{
        name: (getattr(jnp, name), (X, Y))
        for name in listed(
            "add subtract multiply divide maximum minimum greater less greater_equal less_equal equal "
            "not_equal logaddexp arctan2 hypot fmod logical_and logical_or logical_xor"
        )
    },
    **{name: (getattr(jnp, name), (N, N)) for name in listed("bitwise_and bitwise_or bitwise_xor")},
    **{
        name: (getattr(jax.nn, name), (X,))
        for name in listed(
            "relu sigmoid silu gelu softplus elu leaky_relu hard_sigmoid hard_swish mish selu celu "
            "relu6 log_sigmoid soft_sign softmax log_softmax logsumexp standardize"
        )
    },
    **{f"lax {name}": (getattr(jax.lax, name), (P,)) for name in listed("rsqrt erf erfc logistic lgamma")},
}


def _scan(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = 0.5 * state + row
        return state, state * 2

    last, rows = jax.lax.scan(step, jnp.zeros(6), x)
    return last, rows, jax.lax.scan(step, jnp.zeros(6), x, reverse=True)[1]


def _loops(x: Any) -> Any:
    x = jax.lax.fori_loop(0, 3, lambda i, y: y + i * x, x)
    return jax.lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1]


def _branches(x: Any) -> Any:
    return jax.lax.cond(x.shape[0] > 2, lambda y: y + 1, lambda y: y - 1, x) + jax.lax.switch(1, [jnp.sin, jnp.exp], x)


@jax.custom_vjp
def _special(x: Any) -> Any:
    return x * 3


_special.defvjp(lambda x: (_special(x), None), lambda _, g: (g,))

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "operators": (lambda x, y: (x + 1) * 2 - y / 3 + (-x) ** 2 - abs(y) + 2 / (3 + x * x), (X, Y)),
    "powers": (lambda x: x**0.5 + x**-1.5 + 2**x + x**3, (P,)),
    "power": (lambda x, y: x**y, (P, Y)),
    "remainder": (lambda x: jnp.mod(x, 2.0), (X,)),
    "gelu exact": (lambda x: jax.nn.gelu(x, approximate=False), (X,)),
    "matmul": (lambda x, y: x @ y.T, (X, Y)),
    "matmul batched": (jnp.matmul, (B, C)),
    "vector": (lambda x, y: x @ y[0] + jnp.dot(x[0], y[0]), (X, Y)),
    "einsum": (lambda x, y: jnp.einsum("bij,bjk->ikb", x, y), (B, C)),
    "attention": (jax.nn.dot_product_attention, (Q, K, Z)),
    "attention causal": (partial(jax.nn.dot_product_attention, is_causal=True, scale=0.3), (Q, K, Z)),
    "attention window": (partial(jax.nn.dot_product_attention, is_causal=True, local_window_size=(2, 0)), (Q, K, Z)),
    "attention by hand": (
        lambda q, k: jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((4, 4), bool)), q @ k.T, -jnp.inf), -1),
        (X, Y),
    ),
    "sums": (lambda x: x.sum() + x.sum(0) + x.mean() + jnp.sum(x, (0, 1), keepdims=True), (X,)),
    "var": (lambda x: jnp.var(x, -1) + x.std(-1, ddof=1), (X,)),
    "max": (lambda x: x.max() + x.max(0) - x.min(0), (X,)),
    "prod": (lambda x: x.prod(1), (X,)),
    "any": (lambda x: (x > 1).any(1) | (x < 0).all(1), (X,)),
    "norm": (lambda x: jnp.linalg.norm(x, axis=1), (X,)),
    "running": (
        lambda x: (x.cumsum(0), jnp.cumprod(x, 1), jax.lax.cummax(x, 1), jax.lax.cumsum(x, 1, reverse=True)),
        (X,),
    ),
    "argmax": (lambda x: jnp.argmax(x, 1) + x.argmin(1), (floats(4, 9),)),
    "top_k": (lambda x: tuple(jax.lax.top_k(x, 3)), (floats(4, 9),)),
    "sort": (lambda x: jnp.sort(x, 0), (X,)),
    "argsort": (lambda x: jnp.argsort(x, 1), (X,)),
    "where": (lambda x, y: jnp.where(x > y, x, 2 * y), (X, Y)),
    "clip": (lambda x: jnp.clip(x, -0.5, 0.5) + jnp.clip(x, 0) + x.clip(max=0.2), (X,)),
    "round": (lambda x: jnp.round(x * 2), (X,)),
    "casts": (
        lambda x: (x * 3).astype(jnp.int32) + (x > 0) + x.astype(jnp.bfloat16).astype(jnp.float32),
        (np.round(X * 8) / 8 + np.float32(1 / 64),),
    ),
    "reshapes": (lambda x: x.reshape(3, 8).T.reshape(2, 12)[None].squeeze(), (X,)),
    "transposes": (lambda x: jnp.moveaxis(x.transpose(2, 0, 1), 0, 1), (B,)),
    "slices": (lambda x: x[1:, 1:5:2][..., None] + x[:1, ::-1][:, :2, None], (X,)),
    "index": (lambda x: x[jnp.array([0, 2, 2]), jnp.array([1, 0, 5])], (X,)),
    "take": (lambda x: jnp.take(x, jnp.array([3, 0]), axis=1), (X,)),
    "take_along_axis": (lambda x: jnp.take_along_axis(x, jnp.array([[0], [5], [1], [2]]), 1), (X,)),
    "dynamic_slice": (lambda x: jax.lax.dynamic_slice(x, (1, 2), (2, 3)), (X,)),
    "at set": (lambda x, y: x.at[1:3, 2].set(y[0, :2]).at[0].set(5.0), (X, Y)),
    "at many": (lambda x, y: x.at[jnp.array([0, 2])].set(y[:2]), (X, Y)),
    "joined": (lambda x, y: jnp.concatenate([x, y, jnp.ones((4, 1))], 1), (X, Y)),
    "stack": (lambda x, y: jnp.stack([x, y], 1), (X, Y)),
    "split": (lambda x: tuple(jnp.split(x, 3, axis=1)), (X,)),
    "turns": (lambda x: jnp.tile(jnp.roll(jnp.flip(x, 1), 2, 1), (2, 1)), (X,)),
    "repeat": (lambda x: jnp.repeat(x, 2, axis=0), (X,)),
    "triangles": (lambda x: jnp.tril(x, 1) + jnp.triu(x), (X,)),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 3)), constant_values=7), (X,)),
    "pad inside": (lambda x: jax.lax.pad(x, 3.0, ((1, -1, 0), (0, 2, 1))), (X,)),
    "one_hot": (lambda n: jax.nn.one_hot(n, 4), (N,)),
    "convolution": (
        lambda x, w: jax.lax.conv_general_dilated(
            x, w, (2, 1), ((1, 0), (0, 1)), rhs_dilation=(1, 2), feature_group_count=2
        ),
        (PLANE, KERNEL),
    ),
    "scan": (_scan, (X,)),
    "loops": (_loops, (X,)),
    "branches": (_branches, (X,)),
    "calls": (lambda x: jax.checkpoint(jax.jit(lambda y: jnp.sin(y) + _special(y)))(x), (X,)),
    "vmap": (lambda x, y: jax.vmap(lambda a, b: a @ b)(x, y), (B, C)),
    "grad": (jax.grad(lambda x: (jax.nn.silu(x) ** 2).sum()), (X,)),
    "constants": (lambda x, factor: x * factor, (X, 3.0)),
    **{f"elementwise {name}": case for name, case in ELEMENTWISE.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_rules_compute_what_jax_does(name: str) -> None:
    function, specs = CASES[name]
    arrays = [jnp.asarray(each) if isinstance(each, np.ndarray) else each for each in specs]
    assert_close(in_floats(function, *specs), function(*arrays))
