"""The advice on operands of a wrong kind, shape or place works: its code compiles and computes the right values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.errors.test_advice import COLUMN, ROW, WHOLE, WIDE, Case, X, Y, check, load, simple

pytestmark = [
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning"),
]

LARGE = np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32)
TILE = "c = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)\n"
ONE = "c = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)\n"


def filled(name: str, lines: str, report: str, expected: Any, *inputs: Any) -> Case:
    """A case with ``lines`` between load and store, after an empty tile ``c``."""
    return Case(name, load(TILE + lines), report, expected, inputs or (X, Y))


def _sum(x: Any) -> Any:
    return x.sum(1, keepdims=True)


CASES = [
    # Memories
    filled("operand in PSUM", """
p = nl.matmul(a, b, transpose_x=True)
nisa.affine_select(c, [[-1, 8]], 1, p, 0.0, nl.greater_equal)  # wrong
""", r"\[NKI-BU001/BU01\] affine_select: on_true_tile 'p' is in psum", lambda x, y: np.tril(x.T @ y)),
    filled("stationary in PSUM", """
p = nl.matmul(a, b, transpose_x=True)
q = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
nisa.nc_matmul(q, p, b)  # wrong
nisa.tensor_copy(c, q)
""", r"\[NKI-BU001/BU01\] nc_matmul: stationary 'p' is in psum", lambda x, y: (x.T @ y).T @ y),
    Case("result in PSUM", load("""
        p = nl.ndarray((8, 8), dtype=nl.int32, buffer=nl.psum)
        nisa.iota(p, [[1, 8]])  # wrong
        c = nl.add(a, p)
        """), r"\[NKI-BU001/BU01\] iota: dst 'p' is in psum", lambda x, y: x + np.arange(8, dtype=np.float32)),
    filled("two operands in PSUM", """
p = nl.matmul(a, b, transpose_x=True)
q = nl.matmul(b, a, transpose_x=True)
nisa.tensor_tensor(c, p, q, nl.subtract)  # wrong
""", r"\[NKI-BU001/BU02\] tensor_tensor: data1 'p' and data2 'q' are both in psum", lambda x, y: x.T @ y - y.T @ x),
    Case("large transpose in SBUF", load("""
        c = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
        nisa.nc_transpose(c, a)  # wrong
        """), r"\[NKI-BU001/NT06\] nc_transpose: no engine transposes", lambda x, y: x.T, (LARGE, LARGE)),
    Case("start partition of both", load("""
        c = nl.copy(a)
        nisa.tensor_scalar(c[3:7], c[3:7], nl.add, 1.0)  # wrong
        """), r"\[NKI-SH002/TL03\] tensor_scalar: dst 'c' starts at partition 3",
         lambda x, y: np.concatenate([x[:3], x[3:7] + 1, x[7:]])),
    Case("start partition of the result", load("""
        c = nl.copy(a)
        nisa.tensor_tensor(c[4:8], a[0:4], b[0:4], nl.add)  # wrong
        """), r"\[NKI-SH002/TL03\] tensor_tensor: dst 'c' starts at partition 4",
         lambda x, y: np.concatenate([x[:4], x[:4] + y[:4]])),
    Case("start partition of what stays in part", load("""
        c = nl.copy(a)
        m = nl.greater(b, 1.0, dtype=nl.uint8)
        nisa.tensor_copy_predicated(c[4:8], b[0:4], m[0:4])  # wrong
        """), r"\[NKI-SH002/TL03\] tensor_copy_predicated: dst 'c' starts at partition 4",
         lambda x, y: np.concatenate([x[:4], np.where(y[:4] > 1, y[:4], x[4:])])),
    # Shapes
    Case("sum as a row", load("""
        c = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(c, nl.add, a, axis=1)  # wrong
        """), r"\[NKI-SH001/SP01\] tensor_reduce: partitions differ", lambda x, y: _sum(x)),
    Case("sum beside the result as a row", load("""
        c = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(a, nl.square, a, nl.add, c)  # wrong
        """), r"\[NKI-SH001/CO01\] activation_reduce: reduce_res is 'c'", lambda x, y: _sum(x * x)),
    filled("column of a scan", "nisa.tensor_tensor_scan(c, b, a, 0.0, nl.multiply, nl.add)  # wrong",
           r"\[NKI-SH001/SE01\] tensor_tensor_scan: elements per partition differ",
           lambda x, y: np.cumsum(x, 1), X, np.ones_like(COLUMN)),
    filled("row as an operand", "nisa.tensor_scalar(c, a, nl.multiply, b)  # wrong",
           r"\[NKI-SH001/CO01\] tensor_scalar: operand0 is 'b'", lambda x, y: x * y, X, ROW),
    filled("tile as an operand", "nisa.tensor_scalar(c, a, nl.multiply, b)  # wrong",
           r"\[NKI-SH001/CO01\] tensor_scalar: operand0 is 'b'", lambda x, y: x * y),
    filled("number of one partition", "nisa.tensor_scalar(c, a, nl.multiply, b)  # wrong",
           r"\[NKI-SH001/CO01\] tensor_scalar: operand0 is 'b'", lambda x, y: x * y, X, Y[:1, :1]),
    simple("rows of two sizes", "c = nl.add(a, b[0:4])", r"\[NKI-SH001\] nl.add: x 'a' .* do not fit each other",
           lambda x, y: x[:4] + y[:4]),
    simple("columns of two sizes", "c = nl.multiply(a, b)", r"\[NKI-SH001\] nl.multiply: x 'a' .* do not fit",
           lambda x, y: x[:, :8] * y, WIDE, Y),
    Case("rows of two sizes in a loop", """
@nki.jit
def kernel(x, y):
    whole = nl.load(y)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, 8, 5):
        part = nl.load(x[start:min(start + 5, 8)])
        total = nl.add(part, whole)  # wrong
        nl.store(out[start:min(start + 5, 8)], total)
    return out
""", r"\[NKI-SH001\] nl.add: x 'part' \(5, 8\) and y 'whole' \(8, 8\) do not fit",
         lambda x, y: x + np.concatenate([y[:5], y[:3]])),
    Case("operands of a product swapped", """
@nki.jit
def kernel(x, y):
    wide = nl.load(x)
    narrow = nl.load(y)
    c = nl.ndarray((8, 256), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(c, wide, narrow)  # wrong
    return put(c)
""", r"\[NKI-SH001/MM02\] nc_matmul: stationary 'wide' \(8, 256\) has more than 128 columns",
         lambda x, y: y.T @ x, (np.repeat(X, 32, 1), Y)),
    Case("one row", """
@nki.jit
def kernel(x):
    row = nl.load(x[0])  # wrong
    return put(row)
""", r"\[NKI-SH002\] tensor 'row' of shape \(256, 1\)", lambda x: x[:1], (np.repeat(X, 32, 1),)),
    # Types
    Case("product in integers", load("""
        c = nl.ndarray((8, 8), dtype=nl.int32, buffer=nl.psum)
        nisa.nc_matmul(c, a, b)  # wrong
        """), r"\[NKI-BU002/MM07\] nc_matmul: dst 'c' is int32", lambda x, y: x.T @ y),
    Case("transposed by DMA to another dtype", load("""
        c = nl.ndarray((8, 8), dtype=nl.bfloat16, buffer=nl.sbuf)
        nisa.dma_transpose(c, x)  # wrong
        """), r"\[NKI-DT002/DX04\] dma_transpose: dst 'c' is bfloat16", lambda x, y: x.T),
    Case("places in int32", load("""
        m = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(m, a)
        c = nl.ndarray((8, 8), dtype=nl.int32, buffer=nl.sbuf)
        nisa.nc_find_index8(c, a, m)  # wrong
        """), r"\[NKI-DT002/M801\] nc_find_index8: dst 'c' is int32",
         lambda x, y: np.argsort(-x, 1).astype(np.uint32)),
    Case("predicate in float32", load("""
        c = nl.copy(a)
        m = nl.greater(b, 1.0)
        nisa.tensor_copy_predicated(c, b, m)  # wrong
        """), r"\[NKI-DT002/CP01\] tensor_copy_predicated: predicate 'm' is float32",
         lambda x, y: np.where(y > 1, y, x)),
    # Operators
    filled("activation function in tensor_scalar", "nisa.tensor_scalar(c, a, nl.exp, 1.0)  # wrong",
           r"\[NKI-OP001/OP01\] tensor_scalar: op0=nl.exp", lambda x, y: np.exp(x)),
    filled("sum in activation", "nisa.activation(c, nl.add, a, bias=1.0)  # wrong",
           r"\[NKI-OP001/AC01\] activation: op=nl.add", lambda x, y: x + 1),
    filled("product in activation", "nisa.activation(dst=c, op=nl.multiply, data=a, scale=2.0)  # wrong",
           r"\[NKI-OP001/AC01\] activation: op=nl.multiply", lambda x, y: x * 2),
    Case("largest magnitude", load(ONE + "nisa.tensor_reduce(c, nl.abs_max, a, axis=1)  # wrong"),
         r"\[NKI-OP001/TR01\] tensor_reduce: op=nl.abs_max", lambda x, y: np.abs(x).max(1, keepdims=True)),
    Case("mean of a reduction", load(ONE + "nisa.tensor_reduce(c, nl.mean, a, axis=1)  # wrong"),
         r"\[NKI-AR001\] tensor_reduce: op must be an operator .* not the function mean",
         lambda x, y: x.mean(1, keepdims=True)),
    Case("shift and sum", load("""
        c = nl.copy(a)
        nisa.tensor_scalar(c, a, nl.left_shift, 2, op1=nl.subtract, operand1=9, reverse1=True)  # wrong
        """), r"\[NKI-OP001/TS01\] tensor_scalar: op0=nl.left_shift and op1=nl.subtract",
         lambda x, y: 9 - (x << 2), (WHOLE, WHOLE)),
    filled("engine as text", "nisa.tensor_copy(c, a, engine='vector')  # wrong",
           r"\[NKI-AR001\] tensor_copy: engine must be nisa.engine", lambda x, y: x),
    # Python
    Case("sizes that are no tuple", load("c = nl.zeros(8, 8)  # wrong"), r"\[NKI-DT001\] dtype 8 is not an NKI dtype",
         lambda x, y: np.zeros((8, 8), np.float32)),
    simple("sizes and a dtype", "c = nl.ones(8, 4, nl.bfloat16)", r"\[NKI-DT001\] dtype 4 is not an NKI dtype",
           lambda x, y: np.ones((8, 4), ml_dtypes.bfloat16)),
    simple("quotient in a slice", "c = nl.copy(a[:, 0:8 / 2])", r"\[NKI-TN001\] slice 0:4.0 of dimension 1",
           lambda x, y: x[:, :4]),
    Case("quotient in a shape", load("c = nl.full((16 / 2, 4), 1.0, nl.float32)  # wrong"),
         r"\[NKI-AR001\] nl.ndarray: shape \(8.0, 4\)", lambda x, y: np.ones((8, 4), np.float32)),
    Case("loaded into a tile", load("c = nl.copy(a)\nnl.load(c, y)  # wrong"),
         r"\[NKI-BU001\] nl.load: src 'c' is in sbuf", lambda x, y: y),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
@pytest.mark.filterwarnings("ignore:the result of")
def test_the_code_of_the_fix_works(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)
