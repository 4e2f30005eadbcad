"""Softmax and its relatives: with and without the maximum, in two passes and online."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import column, product, returned, transposed

COMMAND = nisa.reduce_cmd


@nki.jit
def two_passes(x):
    """The maximum, then the sum of exponentials, then the quotient."""
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation(tile, nl.exp, tile)
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def without_maximum(x):
    tile = nl.load(x)
    total = column(tile)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def online(x):
    """Maximum and sum run along in blocks of 16 columns; a new maximum scales the sum anew."""
    tile = nl.load(x)
    top, total, fresh, factor, part = column(tile), column(tile), column(tile), column(tile), column(tile)
    powers = nl.ndarray((x.shape[0], 16), dtype=nl.float32)
    nisa.tensor_reduce(top, nl.maximum, tile[:, 0:16], axis=1)
    nisa.tensor_scalar(powers, tile[:, 0:16], nl.subtract, top)
    nisa.activation_reduce(powers, nl.exp, powers, nl.add, total)
    for start in range(16, x.shape[1], 16):
        block = tile[:, start : start + 16]
        nisa.tensor_reduce(fresh, nl.maximum, block, axis=1)
        nisa.tensor_tensor(fresh, fresh, top, nl.maximum)
        nisa.tensor_tensor(factor, top, fresh, nl.subtract)
        nisa.activation(factor, nl.exp, factor)
        nisa.tensor_scalar(powers, block, nl.subtract, fresh)
        nisa.activation_reduce(powers, nl.exp, powers, nl.add, part)
        nisa.scalar_tensor_tensor(total, total, nl.multiply, factor, nl.add, part)
        nisa.tensor_copy(top, fresh)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation(tile, nl.exp, tile)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def by_language(x):
    return returned(nl.softmax(nl.load(x), axis=1))


@nki.jit
def shifted_by_mean(x):
    """Any shift will do, such as the mean of the row."""
    tile = nl.load(x)
    shift, total = column(tile), column(tile)
    nisa.tensor_reduce(shift, nl.add, tile, axis=1)
    nisa.tensor_scalar(shift, shift, nl.multiply, -1.0 / x.shape[1])
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total, bias=shift)
    nisa.reciprocal(total, total)
    nisa.activation(tile, nl.copy, tile, scale=total)
    return returned(tile)


@nki.jit
def scaled_before(x):
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    nisa.tensor_scalar(tile, tile, nl.multiply, 0.125)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def scaled_inside(x):
    """exp(0.125 x - 0.125 max) in one activation."""
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(top, top, nl.multiply, -0.125)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total, bias=top, scale=0.125)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def logsumexp_shifted(x):
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.activation(total, nl.log, total)
    nisa.tensor_tensor(total, total, top, nl.add)
    return returned(total)


@nki.jit
def logsumexp_plain(x):
    tile = nl.load(x)
    total = column(tile)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.activation(total, nl.log, total)
    return returned(total)


@nki.jit
def logsumexp_of_halves(x):
    """Each half with a maximum of its own; the larger one joins them."""
    tile = nl.load(x)
    half = x.shape[1] // 2
    tops = nl.ndarray((x.shape[0], 2), dtype=nl.float32)
    sums = nl.ndarray((x.shape[0], 2), dtype=nl.float32)
    for i in range(2):
        part = tile[:, i * half : (i + 1) * half]
        nisa.tensor_reduce(tops[:, i : i + 1], nl.maximum, part, axis=1)
        nisa.tensor_scalar(part, part, nl.subtract, tops[:, i : i + 1])
        nisa.activation_reduce(part, nl.exp, part, nl.add, sums[:, i : i + 1])
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tops, axis=1)
    nisa.tensor_scalar(tops, tops, nl.subtract, top)
    nisa.activation(tops, nl.exp, tops)
    nisa.tensor_tensor(sums, sums, tops, nl.multiply)
    nisa.tensor_reduce(total, nl.add, sums, axis=1)
    nisa.activation(total, nl.log, total)
    nisa.tensor_tensor(total, total, top, nl.add)
    return returned(total)


@nki.jit
def log_of_softmax(x):
    tile = nl.load(x)
    total = column(tile)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    nisa.activation(tile, nl.log, tile)
    return returned(tile)


@nki.jit
def less_logsumexp(x):
    """x - max - log(sum(exp(x - max)))."""
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    powers = nl.ndarray(x.shape, dtype=nl.float32)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation_reduce(powers, nl.exp, tile, nl.add, total)
    nisa.activation(total, nl.log, total)
    nisa.tensor_scalar(tile, tile, nl.subtract, total)
    return returned(tile)


@nki.jit
def columns_by_transposes(x):
    """Softmax down the partitions: turned, along the rows, and turned back."""
    tile = transposed(nl.load(x))
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(transposed(tile))


@nki.jit
def columns_by_ones(x):
    """A product with a matrix of ones gives every partition the sum down its column."""
    tile = nl.load(x)
    rows = x.shape[0]
    ones, total = nl.ones((rows, rows), nl.float32), nl.ndarray(x.shape, nl.float32)
    nisa.activation(tile, nl.exp, tile)
    nisa.reciprocal(total, product(ones, tile))
    nisa.tensor_tensor(tile, tile, total, nl.multiply)
    return returned(tile)


@nki.jit
def loss_by_products(logits, labels):
    """Cross entropy: the label's logit is the sum of logit times (number = label)."""
    tile, wanted = nl.load(logits), nl.load(labels, dtype=nl.float32)
    rows, classes = logits.shape
    numbers, chosen, total = nl.ndarray((rows, classes), nl.float32), column(tile), column(tile)
    nisa.iota(numbers, [[1, classes]])
    nisa.scalar_tensor_tensor(numbers, numbers, nl.equal, wanted, nl.multiply, tile)
    nisa.tensor_reduce(chosen, nl.add, numbers, axis=1)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.activation(total, nl.log, total)
    nisa.tensor_tensor(total, total, chosen, nl.subtract)
    return returned(total)


@nki.jit
def loss_by_selection(logits, labels):
    """Cross entropy: a predicated copy keeps the label's shifted logit."""
    tile, wanted = nl.load(logits), nl.load(labels, dtype=nl.float32)
    rows, classes = logits.shape
    numbers, hot = nl.ndarray((rows, classes), nl.float32), nl.ndarray((rows, classes), nl.uint8)
    kept, top, chosen, total = nl.zeros((rows, classes), nl.float32), column(tile), column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.iota(numbers, [[1, classes]])
    nisa.tensor_scalar(hot, numbers, nl.equal, wanted)
    nisa.tensor_copy_predicated(kept, tile, hot)
    nisa.tensor_reduce(chosen, nl.add, kept, axis=1)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.activation(total, nl.log, total)
    nisa.tensor_tensor(total, total, chosen, nl.subtract)
    return returned(total)


@nki.jit
def two_classes(a, b):
    """exp(a) / (exp(a) + exp(b))."""
    one, other = nl.load(a), nl.load(b)
    nisa.activation(one, nl.exp, one)
    nisa.activation(other, nl.exp, other)
    nisa.tensor_tensor(other, one, other, nl.add)
    nisa.reciprocal(other, other)
    nisa.tensor_tensor(one, one, other, nl.multiply)
    return returned(one)


@nki.jit
def sigmoid_of_difference(a, b):
    one, other = nl.load(a), nl.load(b)
    nisa.tensor_tensor(one, one, other, nl.subtract)
    nisa.activation(one, nl.sigmoid, one)
    return returned(one)


@nki.jit
def shifted_by_part(x):
    """The maximum of the first eight columns shifts all of them: too little for float32, enough for the reals."""
    tile = nl.load(x)
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile[:, 0:8], axis=1, negate=True)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


X = tensors((24, 48))
SHIFT = ("softmax is the same for any shift",)
LABELS = (Input((20, 12)), Input((20, 1), "int32", 0, 12))
PAIRS = [
    Pair("softmax without maximum", "softmax", two_passes, without_maximum, X, identities=SHIFT),
    Pair("softmax online", "softmax", two_passes, online, X, identities=SHIFT),
    Pair("softmax of the language", "softmax", online, by_language, X, identities=SHIFT),
    Pair("softmax shifted by the mean", "softmax", two_passes, shifted_by_mean, X, identities=SHIFT),
    Pair("softmax shifted by a part", "softmax", two_passes, shifted_by_part, X, identities=SHIFT),
    Pair("softmax scaled inside", "softmax", scaled_before, scaled_inside, X, identities=SHIFT),
    Pair("logsumexp plain", "softmax", logsumexp_shifted, logsumexp_plain, X, identities=("log exp x = x",)),
    Pair("logsumexp of halves", "softmax", logsumexp_plain, logsumexp_of_halves, X, identities=("log exp x = x",)),
    Pair("log of softmax", "softmax", log_of_softmax, less_logsumexp, X, identities=("log exp x = x",)),
    Pair("softmax down columns", "softmax", columns_by_transposes, columns_by_ones, X, identities=SHIFT),
    Pair("cross entropy", "softmax", loss_by_products, loss_by_selection, LABELS, identities=("log exp x = x",)),
    Pair("softmax of two", "softmax", two_classes, sigmoid_of_difference, tensors((16, 20), (16, 20))),
]
