"""Kernels that random tests take for each other, and that are not the same function: each has an input that shows it.

A proof must never call them equal. Where ``assumption`` says so, it may under an assumption that its verdict names:
"ties" (no two numbers that are compared are equal) or "fills" (large negative constants are minus infinity).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import activated, applied, column, copied, joined, product, returned, transposed

from .pair import Array, Input, Pair, tensors
from .pairs import attention, masks, mlp, norms, softmax

ROOT = mlp.ROOT
SHOWN = 1e-5
"""Eighty times the precision of float32."""
Assumption = Literal["", "ties", "fills"]


@dataclass(frozen=True)
class NearMiss:
    """Random inputs of ``pair`` leave both sides within its bound; ``shown`` makes arguments for which an element of
    the results differs by more than :data:`SHOWN` of itself.
    """

    pair: Pair
    shown: Callable[[], list[Array]]
    assumption: Assumption = ""


def filled(*values: float, shape: tuple[int, int] = (8, 16)) -> Callable[[], list[Array]]:
    """An argument for each value, full of it."""
    return lambda: [np.full(shape, value, np.float32) for value in values]


@nki.jit
def itself(x):
    return returned(nl.load(x))


@nki.jit
def root_of_square(x):
    """|x|, which is x for the positive inputs that tests draw."""
    tile = nl.load(x)
    return returned(activated(joined(tile, nl.multiply, tile), nl.sqrt))


@nki.jit
def half_logarithm(x):
    """exp(log(x²) / 2), which is |x|."""
    tile = activated(activated(nl.load(x), nl.square), nl.log)
    nisa.activation(tile, nl.exp, tile, scale=0.5)
    return returned(tile)


@nki.jit
def power_of_square(x):
    """(x²) ** 0.5."""
    tile = nl.load(x)
    return returned(applied(joined(tile, nl.multiply, tile), nl.power, 0.5))


@nki.jit
def square_by_root(x):
    """x² times 1 / sqrt(x²)."""
    squares = activated(nl.load(x), nl.square)
    return returned(joined(squares, nl.multiply, activated(squares, nl.rsqrt)))


@nki.jit
def clamped_below(x):
    return returned(applied(nl.load(x), nl.maximum, -50.0))


@nki.jit
def clamped_far_below(x):
    return returned(applied(nl.load(x), nl.maximum, -10000.0))


@nki.jit
def clamped_above(x):
    return returned(applied(nl.load(x), nl.minimum, 1e30))


@nki.jit
def nearly_one(x):
    return returned(applied(nl.load(x), nl.multiply, 1.00002))


@nki.jit
def nearly_nothing(x):
    return returned(applied(nl.load(x), nl.add, 1e-30))


@nki.jit
def soft_cap(x):
    """1000 tanh(x / 1000)."""
    tile = nl.load(x)
    nisa.activation(tile, nl.tanh, tile, scale=1e-3)
    return returned(applied(tile, nl.multiply, 1000.0))


@nki.jit
def one_value_less(x):
    """x, but 0 where x is 0.5."""
    tile = nl.load(x)
    return returned(joined(applied(tile, nl.not_equal, 0.5), nl.multiply, tile))


@nki.jit
def relu6(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.maximum, 0.0, op1=nl.minimum, operand1=6.0)
    return returned(tile)


@nki.jit
def relu(x):
    return returned(activated(nl.load(x), nl.relu))


@nki.jit
def silu_clamped(x):
    """x sigmoid(max(x, -8))."""
    tile = nl.load(x)
    gate = activated(applied(tile, nl.maximum, -8.0), nl.sigmoid)
    return returned(joined(tile, nl.multiply, gate))


@nki.jit
def gelu_rounded(x):
    """0.04471 in place of 0.044715."""
    tile = nl.load(x)
    inner = activated(tile, nl.square)
    nisa.tensor_scalar(inner, inner, nl.multiply, 0.04471, op1=nl.add, operand1=1.0)
    nisa.tensor_tensor(inner, inner, tile, nl.multiply)
    nisa.activation(inner, nl.tanh, inner, scale=ROOT)
    nisa.tensor_scalar(inner, inner, nl.add, 1.0, op1=nl.multiply, operand1=0.5)
    return returned(joined(tile, nl.multiply, inner))


@nki.jit
def softmax_clamped(x):
    """Differences below -20 count as -20."""
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top, op1=nl.maximum, operand1=-20.0)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def softmax_guarded(x):
    """No maximum, and a sum of at least 0.001."""
    tile = nl.load(x)
    total = column(tile)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.tensor_scalar(total, total, nl.maximum, 1e-3)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def logsumexp_guarded(x):
    """log(1e-6 + sum)."""
    tile = nl.load(x)
    total = column(tile)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.activation(total, nl.log, total, bias=1e-6)
    return returned(total)


@nki.jit
def rms_of_smaller_epsilon(x):
    tile = nl.load(x)
    squares, total = nl.ndarray(x.shape, nl.float32), column(tile)
    nisa.activation_reduce(squares, nl.square, tile, nl.add, total)
    nisa.activation(total, nl.rsqrt, total, scale=1.0 / x.shape[1], bias=1e-8)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def gradient_at_zero(x, g):
    """g where x >= 0: another choice at 0."""
    tile, slope = nl.load(x), nl.load(g)
    nisa.scalar_tensor_tensor(tile, tile, nl.greater_equal, 0.0, nl.multiply, slope)
    return returned(tile)


@nki.jit
def gradient_near_zero(x, g):
    """g where x > -1e-6."""
    tile, slope = nl.load(x), nl.load(g)
    nisa.scalar_tensor_tensor(tile, tile, nl.greater, -1e-6, nl.multiply, slope)
    return returned(tile)


@nki.jit
def causal_of_small_fill(q, k, v):
    """-25 above the diagonal, a number that a score can reach."""
    length, width = q.shape
    scores = nl.ndarray((length, length), nl.float32)
    top, total = column(scores), column(scores)
    nisa.tensor_scalar(scores, product(transposed(nl.load(q)), transposed(nl.load(k))), nl.multiply, width**-0.5)
    nisa.affine_select(scores, [[-1, length]], 1, scores, -25.0, cmp_op=nl.greater_equal)
    nisa.tensor_reduce(top, nl.maximum, scores, axis=1, negate=True)
    nisa.activation_reduce(scores, nl.exp, scores, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(scores, scores, nl.multiply, total)
    return returned(copied(product(transposed(scores), nl.load(v))))


@nki.jit
def largest_counts_twice(x):
    """The sum of each row's elements that are equal to the largest: the largest, unless two are."""
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.scalar_tensor_tensor(tile, tile, nl.equal, top, nl.multiply, tile)
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    return returned(total)


@nki.jit
def largest(x):
    return returned(nl.max(nl.load(x), axis=1, keepdims=True))


@nki.jit
def lowest_from_zero(x):
    """The largest of each row, but at least -4."""
    tile = nl.load(x)
    top = column(tile)
    nisa.tensor_scalar_reduce(tile, tile, nl.maximum, -4.0, nl.maximum, top)
    return returned(top)


def opposite_scores() -> list[Array]:
    """Every score is about -40."""
    q = np.full((48, 16), 3.2, np.float32)
    return [q, -q, np.random.default_rng(0).standard_normal((48, 16)).astype(np.float32)]


def spread() -> list[Array]:
    """A row with one element far above the others."""
    x = np.zeros((8, 16), np.float32)
    x[:, 3] = 40.0
    return [x + np.arange(16, dtype=np.float32)]


X = tensors((8, 16))
POSITIVE = (Input((8, 16), "float32", 0.2, 1.0),)
CALM = (Input((8, 16), "float32", -3.0, 3.0),)
TWO = X * 2


def parted(one: list[Array], other: list[Array]) -> float:
    """The largest difference of an element relative to the larger of its two values."""
    return max(
        float((np.abs(a - b) / np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-38)).max())
        for a, b in zip(one, other, strict=True)
    )


def _miss(
    name: str,
    old: Any,
    new: Any,
    specs: tuple[Input, ...],
    shown: Callable[[], list[Array]],
    assumption: Assumption = "",
    bound: float = 2e-5,
) -> NearMiss:
    return NearMiss(Pair(name, "near misses", old, new, specs, bound), shown, assumption)


NEAR_MISSES = (
    _miss("root of a square", itself, root_of_square, POSITIVE, filled(-0.5)),
    _miss("half of a logarithm", itself, half_logarithm, POSITIVE, filled(-0.5)),
    _miss("power of a square", itself, power_of_square, POSITIVE, filled(-0.5)),
    _miss("square by its root", itself, square_by_root, POSITIVE, filled(-0.5)),
    _miss("clamped below", itself, clamped_below, X, filled(-60.0)),
    _miss("clamped far below", itself, clamped_far_below, X, filled(-20000.0), "fills"),
    _miss("clamped above", itself, clamped_above, X, filled(1e32)),
    _miss("nearly one", itself, nearly_one, X, filled(1.0), bound=1e-4),
    _miss("nearly nothing", itself, nearly_nothing, X, filled(0.0)),
    _miss("soft cap", itself, soft_cap, X, filled(2000.0)),
    _miss("one value less", itself, one_value_less, X, filled(0.5), "ties"),
    _miss("relu6", relu, relu6, CALM, filled(7.0)),
    _miss("silu clamped", mlp.silu_activation, silu_clamped, CALM, filled(-20.0)),
    _miss("gelu of a rounded constant", mlp.gelu_by_tanh, gelu_rounded, CALM, filled(-2.5)),
    _miss("gelu approximated", mlp.gelu_activation, mlp.gelu_tanh_activation, CALM, filled(-2.5), bound=1e-3),
    _miss("softmax clamped", softmax.two_passes, softmax_clamped, CALM, spread),
    _miss("softmax guarded", softmax.two_passes, softmax_guarded, CALM, filled(-20.0)),
    _miss("logsumexp guarded", softmax.logsumexp_plain, logsumexp_guarded, CALM, filled(-20.0)),
    _miss("smaller epsilon", norms.rms_by_rsqrt, rms_of_smaller_epsilon, POSITIVE, filled(1e-3), bound=1e-4),
    _miss("gradient at zero", masks.gradient_by_product, gradient_at_zero, TWO, filled(0.0, 1.0), "ties"),
    _miss("gradient near zero", masks.gradient_by_product, gradient_near_zero, TWO, filled(-5e-7, 1.0)),
    _miss("small fill", attention.causal_infinite, causal_of_small_fill, attention.X, opposite_scores),
    _miss("largest counts twice", largest, largest_counts_twice, X, filled(1.0), "ties"),
    _miss("largest of at least -4", largest, lowest_from_zero, CALM, filled(-5.0)),
)
