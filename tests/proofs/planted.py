"""A kernel with online softmax, and ten mistakes that may be planted in it; the line of each ends in its name."""

from __future__ import annotations

import inspect
from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.base.element_types import DType, float32
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.ir.types import TensorSpec
from tests.support.kernel_parts import column, like, returned

MASKED = -30000.0
GE = nl.greater_equal

MISTAKES = {
    "scale": "new", "edge": "new", "rescale": "old", "tile": "old", "axis": "new", "operands": "new", "sign": "new",
    "function": "new", "sum": "old", "window": "new",
}  # fmt: skip
"""The side that has the line: a statement that is missing stands in the old kernel alone."""


def attention(mistake: str = "", size: int = 16, dtype: DType = float32):
    """Causal attention of q and k, (d, n), and v, (n, d), in blocks of ``size`` keys."""

    @nki.jit
    def kernel(q, k, v):
        d, n = q.shape
        queries, keys = nl.load(q), nl.load(k)
        best = nl.ndarray((n, 1), dtype=nl.float32)
        total = nl.ndarray((n, 1), dtype=nl.float32)
        acc = nl.ndarray((n, d), dtype=nl.float32)
        nisa.memset(best, MASKED)
        nisa.memset(total, 0)
        nisa.memset(acc, 0)
        for start in range(0, n, size):
            if mistake == "tile" and start + size == n:
                continue
            if mistake == "window":
                values = nl.load(v[max(0, start - 1) : max(0, start - 1) + size])  # window
            else:
                values = nl.load(v[start : start + size])
            scores = nl.ndarray((n, size), dtype=nl.float32, buffer=nl.psum)
            block = keys[:, start : start + size]
            if mistake == "operands":
                nisa.nc_matmul(scores, keys, queries[:, start : start + size])  # operands
            else:
                nisa.nc_matmul(scores, queries, block)
            tile = nl.ndarray((n, size), dtype=nl.float32)
            if mistake == "scale":
                nisa.tensor_scalar(tile, scores, nl.multiply, d**-1.0)  # scale
            else:
                nisa.tensor_scalar(tile, scores, nl.multiply, d**-0.5)
            if mistake == "edge":
                nisa.affine_select(tile, [[-1, size]], 1, tile, MASKED, offset=1 - start, cmp_op=GE)  # edge
            else:
                nisa.affine_select(tile, [[-1, size]], 1, tile, MASKED, offset=-start, cmp_op=GE)
            top, change, part = column(tile), column(tile), column(tile)
            nisa.tensor_reduce(top, nl.maximum, tile, axis=1)
            nisa.tensor_tensor(top, top, best, nl.maximum)
            nisa.tensor_tensor(change, best, top, nl.subtract)
            nisa.activation(change, nl.exp, change)
            nisa.tensor_copy(best, top)
            if mistake == "sign":
                nisa.tensor_scalar(tile, tile, nl.subtract, top, reverse0=True)  # sign
            else:
                nisa.tensor_scalar(tile, tile, nl.subtract, top)
            if mistake == "function":
                nisa.activation(tile, nl.tanh, tile)  # function
            else:
                nisa.activation(tile, nl.exp, tile)
            if mistake == "axis":
                nisa.tensor_reduce(part, nl.add, tile[:, : size - 1], axis=1)  # axis
            else:
                nisa.tensor_reduce(part, nl.add, tile, axis=1)
            nisa.tensor_tensor(total, total, change, nl.multiply)
            if mistake != "rescale":
                nisa.tensor_scalar(acc, acc, nl.multiply, change)  # rescale
            if mistake != "sum":
                nisa.tensor_tensor(total, total, part, nl.add)  # sum
            turned = nl.ndarray((size, n), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_transpose(turned, tile)
            weights = nl.ndarray((size, n), dtype=values.dtype)
            nisa.tensor_copy(weights, turned)
            product = nl.ndarray((n, d), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, weights, values)
            nisa.tensor_tensor(acc, acc, product, nl.add)
        if mistake == "sum":
            nisa.tensor_scalar(total, total, nl.add, 1.0)
        nisa.reciprocal(total, total)
        result = like(acc, dtype)
        nisa.tensor_scalar(result, acc, nl.multiply, total)
        return returned(result)

    return kernel


def specialised(kernel: Any, *forms: tuple[tuple[int, ...], DType]) -> tuple[Program, list[TensorSpec]]:
    """The program of ``kernel`` for inputs of these shapes and dtypes, and their specs."""
    names = inspect.signature(kernel.func).parameters
    specs = {name: TensorSpec(name, *form) for name, form in zip(names, forms, strict=True)}
    target = targets.find("trn2")
    grid = kernel.launch_grid(target)
    return pipeline.compile(kernel.func, specs, target, grid=grid, stop=pipeline.SPECIALISE), list(specs.values())
