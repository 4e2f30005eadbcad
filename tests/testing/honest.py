"""Honest kernels with their references in NumPy, by families: what ``nki.testing.verify`` must let pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

Array = np.ndarray[Any, Any]
ROWS = 128
FLOATS = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class Honest:
    """A kernel, its reference, the arguments, and the options of ``verify``."""

    name: str
    kernel: Any
    reference: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


def by_rows(body: Callable[..., Any], columns: Callable[[int], int] = lambda n: n) -> Any:
    """A kernel that applies ``body(out, *tiles)`` to blocks of rows of its arguments."""

    @nki.jit
    def one(x):
        out = nl.ndarray((x.shape[0], columns(x.shape[1])), dtype=x.dtype, buffer=nl.shared_hbm)
        for start in range(0, x.shape[0], ROWS):
            size = min(ROWS, x.shape[0] - start)
            tile = nl.load(x[start : start + size])
            result = nl.ndarray((size, columns(x.shape[1])), dtype=x.dtype)
            body(result, tile)
            nl.store(out[start : start + size], result)
        return out

    return one


def by_rows_of_two(body: Callable[..., Any]) -> Any:
    """The same of two arguments of one shape."""

    @nki.jit
    def two(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for start in range(0, x.shape[0], ROWS):
            size = min(ROWS, x.shape[0] - start)
            left, right = nl.load(x[start : start + size]), nl.load(y[start : start + size])
            result = nl.ndarray((size, x.shape[1]), dtype=x.dtype)
            body(result, left, right)
            nl.store(out[start : start + size], result)
        return out

    return two


# Functions of one number.


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


UNARY: dict[str, tuple[Any, Callable[[Array], Array]]] = {
    "exp": (nl.exp, np.exp),
    "tanh": (nl.tanh, np.tanh),
    "sigmoid": (nl.sigmoid, sigmoid),
    "silu": (nl.silu, lambda x: x * sigmoid(x)),
    "gelu": (nl.gelu, lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
    "relu": (nl.relu, lambda x: np.maximum(x, 0)),
    "square": (nl.square, np.square),
    "abs": (nl.abs, np.abs),
    "sin": (nl.sin, np.sin),
    "erf": (nl.erf, erf),
    "sqrt": (nl.sqrt, np.sqrt),
    "rsqrt": (nl.rsqrt, lambda x: 1 / np.sqrt(x)),
    "log": (nl.log, np.log),
    "sign": (nl.sign, np.sign),
    "softplus": (nl.softplus, lambda x: np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)),
}


def applied(op: Any) -> Any:
    return by_rows(lambda out, tile: nisa.activation(out, op, tile))


# Functions of two numbers.

BINARY: dict[str, tuple[Any, Callable[[Array, Array], Array]]] = {
    "add": (nl.add, np.add),
    "subtract": (nl.subtract, np.subtract),
    "multiply": (nl.multiply, np.multiply),
    "maximum": (nl.maximum, np.maximum),
    "minimum": (nl.minimum, np.minimum),
}


def combined(op: Any) -> Any:
    return by_rows_of_two(lambda out, left, right: nisa.tensor_tensor(out, left, right, op))


# With a constant.

SCALAR: dict[str, tuple[Any, float, Callable[[Array], Array]]] = {
    "plus": (nl.add, 0.75, lambda x: x + 0.75),
    "times": (nl.multiply, -3.0, lambda x: x * -3),
    "at_least": (nl.maximum, -0.5, lambda x: np.maximum(x, -0.5)),
    "at_most": (nl.minimum, 0.25, lambda x: np.minimum(x, 0.25)),
}


def with_number(op: Any, number: float) -> Any:
    return by_rows(lambda out, tile: nisa.tensor_scalar(out, tile, op, number))


# Rows.


def column(tile: Any) -> Any:
    return nl.ndarray((tile.shape[0], 1), dtype=nl.float32)


def softmax(out: Any, tile: Any) -> None:
    top, total, wide = column(tile), column(tile), nl.ndarray(tile.shape, dtype=nl.float32)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=-1)
    nisa.tensor_scalar(wide, tile, nl.subtract, top)
    nisa.activation(wide, nl.exp, wide)
    nisa.tensor_reduce(total, nl.add, wide, axis=-1)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(out, wide, nl.multiply, total)


def softmax_reference(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def rmsnorm(out: Any, tile: Any) -> None:
    total, wide = column(tile), nl.ndarray(tile.shape, dtype=nl.float32)
    nisa.tensor_tensor(wide, tile, tile, nl.multiply)
    nisa.tensor_reduce(total, nl.add, wide, axis=-1)
    nisa.tensor_scalar(total, total, nl.multiply, 1.0 / tile.shape[1], op1=nl.add, operand1=1e-6)
    nisa.activation(total, nl.rsqrt, total)
    nisa.tensor_scalar(out, tile, nl.multiply, total)


def rmsnorm_reference(x: Array) -> Array:
    return x / np.sqrt(np.mean(x * x, 1, keepdims=True) + 1e-6)


def layernorm(out: Any, tile: Any) -> None:
    mean, total, wide = column(tile), column(tile), nl.ndarray(tile.shape, dtype=nl.float32)
    centred = nl.ndarray(tile.shape, dtype=nl.float32)
    nisa.tensor_reduce(mean, nl.add, tile, axis=-1)
    nisa.tensor_scalar(mean, mean, nl.multiply, 1.0 / tile.shape[1])
    nisa.tensor_scalar(centred, tile, nl.subtract, mean)
    nisa.tensor_tensor(wide, centred, centred, nl.multiply)
    nisa.tensor_reduce(total, nl.add, wide, axis=-1)
    nisa.tensor_scalar(total, total, nl.multiply, 1.0 / tile.shape[1], op1=nl.add, operand1=1e-5)
    nisa.activation(total, nl.rsqrt, total)
    nisa.tensor_scalar(out, centred, nl.multiply, total)


def layernorm_reference(x: Array) -> Array:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def centred(out: Any, tile: Any) -> None:
    mean = column(tile)
    nisa.tensor_reduce(mean, nl.add, tile, axis=-1)
    nisa.tensor_scalar(mean, mean, nl.multiply, 1.0 / tile.shape[1])
    nisa.tensor_scalar(out, tile, nl.subtract, mean)


def reduced(op: Any) -> Callable[[Any, Any], None]:
    return lambda out, tile: nisa.tensor_reduce(out, op, tile, axis=-1)


def logsumexp(out: Any, tile: Any) -> None:
    top, total, wide = column(tile), column(tile), nl.ndarray(tile.shape, dtype=nl.float32)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=-1)
    nisa.tensor_scalar(wide, tile, nl.subtract, top)
    nisa.activation(wide, nl.exp, wide)
    nisa.tensor_reduce(total, nl.add, wide, axis=-1)
    nisa.activation(total, nl.log, total)
    nisa.tensor_tensor(out, total, top, nl.add)


def logsumexp_reference(x: Array) -> Array:
    top = x.max(1, keepdims=True)
    return np.log(np.exp(x - top).sum(1, keepdims=True)) + top


KEPT: dict[str, tuple[Any, Callable[[Array], Array]]] = {
    "softmax": (softmax, softmax_reference),
    "rmsnorm": (rmsnorm, rmsnorm_reference),
    "layernorm": (layernorm, layernorm_reference),
    "centred": (centred, lambda x: x - x.mean(1, keepdims=True)),
}
REDUCED: dict[str, tuple[Any, Callable[[Array], Array]]] = {
    "sum": (reduced(nl.add), lambda x: x.sum(1, keepdims=True)),
    "max": (reduced(nl.maximum), lambda x: x.max(1, keepdims=True)),
    "min": (reduced(nl.minimum), lambda x: x.min(1, keepdims=True)),
    "logsumexp": (logsumexp, logsumexp_reference),
}


# Products.


@nki.jit
def matmul(a_t, b):
    """``a_t.T @ b``, tiles of 128 x 512 of the result, sums in PSUM."""
    (k, m), n = a_t.shape, b.shape[1]
    out = nl.ndarray((m, n), dtype=a_t.dtype, buffer=nl.shared_hbm)
    for i in range(0, m, ROWS):
        for j in range(0, n, 512):
            rows, columns = min(ROWS, m - i), min(512, n - j)
            total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
            for p in range(0, k, ROWS):
                depth = min(ROWS, k - p)
                left = nl.load(a_t[p : p + depth, i : i + rows])
                right = nl.load(b[p : p + depth, j : j + columns])
                nisa.nc_matmul(total, left, right)
            result = nl.ndarray((rows, columns), dtype=a_t.dtype)
            nisa.tensor_copy(result, total)
            nl.store(out[i : i + rows, j : j + columns], result)
    return out


@nki.jit
def scaled_sum(x, y, scale):
    tile, other = nl.load(x), nl.load(y)
    nisa.tensor_scalar(tile, tile, nl.multiply, scale)
    nisa.tensor_tensor(tile, tile, other, nl.add)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def biased(x, bias):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    wide = nl.ndarray((min(ROWS, x.shape[0]), x.shape[1]), dtype=bias.dtype)
    for row in range(wide.shape[0]):
        nisa.dma_copy(wide[row : row + 1], bias)
    for start in range(0, x.shape[0], ROWS):
        size = min(ROWS, x.shape[0] - start)
        tile = nl.load(x[start : start + size])
        nisa.tensor_tensor(tile, tile, wide[:size], nl.add)
        nl.store(out[start : start + size], tile)
    return out


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


def corpus() -> list[Honest]:
    """All of them."""
    found: list[Honest] = []
    rows, few = {"M": range(1, 300)}, {"M": [1, 129]}
    for dtype in FLOATS:
        spec = f"{{M}}x40:{dtype}"
        for name, (op, reference) in UNARY.items():
            text = f"{spec}:uniform" if name == "sin" else spec  # the engine has it from -pi to pi
            found.append(Honest(f"{name}-{dtype}", applied(op), reference, (text,), {"sizes": few}))
        for name, (op, both) in BINARY.items():
            found.append(Honest(f"{name}-{dtype}", combined(op), both, (spec, spec), {"sizes": few}))
        for name, (op, number, reference) in SCALAR.items():
            found.append(Honest(f"{name}-{dtype}", with_number(op, number), reference, (spec,), {"sizes": few}))
        for columns in (1, 65, 512) if dtype == "float32" else (65, 512):
            spec = f"{{M}}x{columns}:{dtype}"
            for name, (body, reference) in KEPT.items():
                found.append(Honest(f"{name}-{columns}-{dtype}", by_rows(body), reference, (spec,), {"sizes": few}))
            for name, (body, reference) in REDUCED.items():
                kernel = by_rows(body, lambda _: 1)
                found.append(Honest(f"{name}-{columns}-{dtype}", kernel, reference, (spec,), {"sizes": few}))
        for k, m, n in ((1, 1, 1), (128, 128, 512), (129, 127, 513), (300, 20, 30), (64, 200, 7)):
            if k == 129 and dtype != "float32":
                continue
            arguments = (f"{k}x{m}:{dtype}", f"{k}x{n}:{dtype}")
            found.append(Honest(f"matmul-{k}-{m}-{n}-{dtype}", matmul, lambda a, b: a.T @ b, arguments))
        found.append(Honest(f"scaled_sum-{dtype}", scaled_sum, lambda x, y, scale: x * scale + y,
                            (f"64x96:{dtype}", f"64x96:{dtype}", 0.125)))  # fmt: skip
        found.append(Honest(f"biased-{dtype}", biased, lambda x, b: x + b, (f"{{M}}x33:{dtype}", f"1x33:{dtype}"),
                            {"sizes": rows}))  # fmt: skip
    found += [
        Honest(f"copied-{dtype}", copied, lambda x: x, (f"{{M}}x20:{dtype}",), {"sizes": few})
        for dtype in (*FLOATS, "int32", "int8", "uint16", "float8_e4m3")
    ]
    for dtype in ("int32", "int16"):
        for name in ("add", "subtract", "maximum", "minimum"):
            op, both = BINARY[name]
            found.append(Honest(f"{name}-{dtype}", combined(op), both, (f"{{M}}x40:{dtype}",) * 2, {"sizes": few}))
    return found
