"""NumPy's functions by the rules of a proof, beside NumPy itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nki.proofs.traced.elements import listed
from tests.proofs.traced.evaluation import assert_close, floats, in_floats, integers, positive, unit

X, Y, P, U, N = floats(4, 6), floats(4, 6, seed=1), positive(4, 6), unit(4, 6), integers(4, 6)
B, C = floats(2, 4, 6), floats(2, 6, 5)

ELEMENTWISE = {
    **{
        name: (getattr(np, name), (X,))
        for name in listed(
            "negative positive absolute fabs exp exp2 expm1 sin cos tan sinh cosh tanh arctan arcsinh "
            "sign square floor ceil rint trunc cbrt isfinite isinf isnan logical_not"
        )
    },
    **{name: (getattr(np, name), (P,)) for name in listed("log log2 log10 log1p sqrt reciprocal")},
    **{name: (getattr(np, name), (U,)) for name in listed("arcsin arccos arctanh")},
    **{
        name: (getattr(np, name), (X, Y))
        for name in listed(
            "add subtract multiply divide maximum minimum fmax fmin greater less greater_equal "
            "less_equal equal not_equal logaddexp arctan2 hypot remainder fmod floor_divide copysign "
            "logical_and logical_or logical_xor"
        )
    },
    **{name: (getattr(np, name), (N, N)) for name in listed("bitwise_and bitwise_or bitwise_xor left_shift")},
}


def _filled(x: Any) -> Any:
    out = np.zeros((4, 6))
    for i in range(4):
        out[i] = x[i] * 2
        out[i, 1:3] += 1
    return out


def _recurrence(x: Any) -> Any:
    state = np.zeros(6)
    out = np.empty_like(x)
    for i in range(len(x)):
        state = 0.5 * state + x[i]
        out[i] = state
    return out


def _in_place(x: Any) -> Any:
    y = x.copy()
    y -= y.max(-1, keepdims=True)
    y *= 2
    y[:, 0] = 1
    return y


def _views(x: Any) -> Any:
    y = x.copy()
    row, turned, flat = y[1], y.T, y.reshape(-1)
    row[:] = 0
    turned[2] *= 3
    flat[-1] = x[0, 0]
    y[2] = 5
    return y, row, turned, flat, y[:, 1:].ravel()


def _helper(x: Any) -> Any:
    return np.exp(x - np.max(x, axis=-1, keepdims=True))


def _calls(x: Any) -> Any:
    return _helper(x) / _helper(x).sum(-1, keepdims=True)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "operators": (lambda x, y: (x + 1) * 2 - y / 3 + (-x) ** 2 - abs(y), (X, Y)),
    "power half": (lambda x: x**0.5 + x**-1.5 + 2**x + x**3, (P,)),
    "powers differ": (lambda x: x ** np.array([0, 1, 2, 0.5, -1, 3]), (P,)),
    "power of powers": (lambda x, y: x**y, (P, Y)),
    "matmul": (lambda x, y: x @ y.T, (X, Y)),
    "matmul batched": (lambda x, y: np.matmul(x, y), (B, C)),
    "matmul broadcast": (lambda x, y: x[:, None] @ y[None], (B, C)),
    "matmul vector": (lambda x, y: x @ y[0], (X, Y)),
    "dot": (lambda x, y: np.dot(x, y.T), (X, Y)),
    "inner": (lambda x, y: np.inner(x, y), (X, Y)),
    "outer": (lambda x, y: np.outer(x[0], y[0]), (X, Y)),
    "tensordot": (lambda x, y: np.tensordot(x, y, ([2], [1])), (B, C)),
    "einsum product": (lambda x, y: np.einsum("bij,bjk->bik", x, y), (B, C)),
    "einsum implicit": (lambda x, y: np.einsum("ij,kj", x, y), (X, Y)),
    "einsum diagonal": (lambda x: np.einsum("bii->b", x[:, :4, :4]), (B,)),
    "einsum sum": (lambda x: np.einsum("bij->ji", x), (B,)),
    "einsum three": (lambda x, y, z: np.einsum("bij,bjk,li->lk", x, y, z), (B, C, floats(3, 4))),
    "einsum ellipsis": (lambda x, y: np.einsum("...ij,...jk->...ik", x, y), (B, C)),
    "sum": (lambda x: x.sum(), (X,)),
    "sum axes": (lambda x: np.sum(x, axis=(0, 2), keepdims=True), (B,)),
    "mean": (lambda x: np.mean(x, axis=1), (B,)),
    "var": (lambda x: x.var(axis=-1, ddof=1), (X,)),
    "std": (lambda x: np.std(x, axis=0), (X,)),
    "max": (lambda x: np.max(x, axis=0), (X,)),
    "min": (lambda x: x.min(axis=(0, 1)), (B,)),
    "prod": (lambda x: np.prod(x, axis=1), (X,)),
    "any": (lambda x: np.any(x > 1, axis=1), (X,)),
    "all": (lambda x: (x > -1).all(axis=0), (X,)),
    "reduce": (lambda x: np.add.reduce(x, axis=1), (X,)),
    "accumulate": (lambda x: np.maximum.accumulate(x, axis=1), (X,)),
    "ufunc outer": (lambda x, y: np.subtract.outer(x[0], y[0]), (X, Y)),
    "cumsum": (lambda x: np.cumsum(x, axis=0), (X,)),
    "cumsum flat": (lambda x: x.cumsum(), (X,)),
    "cumprod": (lambda x: np.cumprod(x, axis=1), (X,)),
    "argmax": (lambda x: np.argmax(x, axis=1), (floats(4, 9),)),
    "argmin": (lambda x: x.argmin(axis=0), (floats(9, 4),)),
    "sort": (lambda x: np.sort(x, axis=0), (X,)),
    "argsort": (lambda x: np.argsort(x, axis=-1), (X,)),
    "where": (lambda x, y: np.where(x > y, x, 2 * y), (X, Y)),
    "where known": (lambda x: np.where(np.tri(4, 6, dtype=bool), x, -1), (X,)),
    "clip": (lambda x: np.clip(x, -0.5, 0.5), (X,)),
    "clip below": (lambda x: x.clip(0), (X,)),
    "round": (lambda x: np.round(x), (X,)),
    "astype": (lambda x: (x * 3).astype(np.int32), (X,)),
    "truth": (lambda x: (x > 0).astype(np.float32) * x, (X,)),
    "reshape": (lambda x: x.reshape(3, -1), (X,)),
    "transpose": (lambda x: np.transpose(x, (2, 0, 1)), (B,)),
    "moveaxis": (lambda x: np.moveaxis(x, 0, -1).swapaxes(0, 1), (B,)),
    "squeeze": (lambda x: np.expand_dims(x, 1).squeeze(1), (X,)),
    "broadcast": (lambda x: np.broadcast_to(x[:, :1], (4, 6)), (X,)),
    "slices": (lambda x: x[::-1, 1:5:2][..., None], (X,)),
    "index arrays": (lambda x: x[np.array([0, 2, 2]), np.array([1, 0, 5])], (X,)),
    "index mask": (lambda x: x[:, np.array([1, 0, 1, 0, 1, 1], bool)], (X,)),
    "concatenate": (lambda x, y: np.concatenate([x, y, np.ones((4, 1))], axis=1), (X, Y)),
    "stack": (lambda x, y: np.stack([x, y], axis=1), (X, Y)),
    "split": (lambda x: tuple(np.split(x, 3, axis=1)), (X,)),
    "flip": (lambda x: np.flip(x, 1), (X,)),
    "roll": (lambda x: np.roll(x, 2, axis=1), (X,)),
    "repeat": (lambda x: np.repeat(x, 2, axis=0), (X,)),
    "tile": (lambda x: np.tile(x, (2, 1)), (X,)),
    "tril": (lambda x: np.tril(x, 1), (X,)),
    "triu": (lambda x: np.triu(x), (X,)),
    "pad": (lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=7), (X,)),
    "pad edge": (lambda x: np.pad(x, 1, mode="edge"), (X,)),
    "take": (lambda x: np.take(x, [3, 0], axis=1), (X,)),
    "take_along_axis": (lambda x: np.take_along_axis(x, np.array([[0], [5], [1], [2]]), 1), (X,)),
    "rows by number": (lambda x, n: x[n[0]], (X, N)),
    "columns by number": (lambda x, n: np.take(x, n, axis=1), (X, N)),
    "along rows by number": (lambda x, n: np.take_along_axis(x, n, axis=1), (X, N)),
    "one of each row": (lambda x, n: x[np.arange(4), n[:, 0]], (X, N)),
    "norm": (lambda x: np.linalg.norm(x, axis=1), (X,)),
    "one hot": (lambda n: (n[..., None] == np.arange(4)) * 1.0, (N,)),
    "filled": (_filled, (X,)),
    "recurrence": (_recurrence, (X,)),
    "in place": (_in_place, (X,)),
    "views": (_views, (X,)),
    "helpers": (_calls, (X,)),
    "asarray": (lambda x: np.asarray(x, np.float64) + np.array([1, 2, 3, 4, 5, 6]), (X,)),
    "array of arrays": (lambda x: np.array([x[0] + 1, x[1]]), (X,)),
    "constants": (lambda x, factor: x * factor, (X, 3.0)),
    **{f"elementwise {name}": case for name, case in ELEMENTWISE.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_rules_compute_what_numpy_does(name: str) -> None:
    function, specs = CASES[name]
    wide = [each.astype(np.float64) if getattr(each, "dtype", None) == np.float32 else each for each in specs]
    assert_close(in_floats(function, *specs), function(*wide))
