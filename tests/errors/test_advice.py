"""The advice of an error works: its code, put in place of the mistake, compiles and computes the right values."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
from nki.base.errors import NkiError

pytestmark = [
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning"),
]

HEADER = """\
import math
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
import torch
from torch.nn import functional

TABLE = np.arange(64, dtype=np.float32).reshape(8, 8)


def put(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(tile))
    return out


"""

_random = np.random.default_rng(0)
X = _random.standard_normal((8, 8)).astype(np.float32) + 0.1
Y = np.abs(_random.standard_normal((8, 8))).astype(np.float32) + 0.5
ROW = Y[:1]
COLUMN = Y[:, :1]
WIDE = _random.standard_normal((8, 16)).astype(np.float32)
TALL = _random.standard_normal((16, 8)).astype(np.float32)
HALF = X.astype(ml_dtypes.bfloat16)
WHOLE = _random.integers(1, 9, (8, 8)).astype(np.int32)
THREE = np.array([[3]], np.int32)


@dataclass
class Case:
    """A kernel with a mistake in the line marked ``# wrong``, the start of the report, and the result after the fix."""

    name: str
    body: str
    report: str
    expected: Callable[..., Any]
    inputs: tuple[Any, ...] = (X, Y)
    tolerance: float = 1e-5


def load(body: str) -> str:
    """A kernel of ``x`` and ``y`` with both in tiles ``a`` and ``b``, and result ``c``."""
    return f"""
@nki.jit
def kernel(x, y):
    a = nl.load(x)
    b = nl.load(y)
{textwrap.indent(textwrap.dedent(body).strip(), "    ")}
    return put(c)
"""


def simple(name: str, line: str, report: str, expected: Callable[..., Any], *inputs: Any) -> Case:
    """A case with a kernel of one line between load and store."""
    return Case(name, load(f"{line}  # wrong"), report, expected, inputs or (X, Y))


def into(
    name: str, memory: str, line: str, report: str, expected: Callable[..., Any], *inputs: Any, shape: Any = (8, 8)
) -> Case:
    """A case with a kernel of one line that writes into a new tile ``c`` of float32."""
    tile = f"c = nl.ndarray({shape}, dtype=nl.float32, buffer=nl.{memory})"
    return Case(name, load(f"{tile}\n{line}  # wrong"), report, expected, inputs or (X, Y))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


ASSIGNED = r"\[NKI-TN003\] assignment into 'c'"
OPERATOR = r"\[NKI-TN003\] Python's "
CASES = [
    # Operators
    simple("add", "c = a + b", OPERATOR + r"\+ on tensor 'a' \(8, 8\)", lambda x, y: x + y),
    simple("subtract", "c = a - b", OPERATOR + "- on tensor 'a'", lambda x, y: x - y),
    simple("multiply", "c = a * 2.0", OPERATOR + r"\* on tensor 'a'", lambda x, y: x * 2),
    simple("number first", "c = 3.0 - a", OPERATOR + "- on tensor 'a'", lambda x, y: 3 - x),
    simple("divide", "c = a / b", OPERATOR + "/ on tensor 'a'", lambda x, y: x / y),
    simple("reciprocal", "c = 1.0 / b", OPERATOR + "/ on tensor 'b'", lambda x, y: 1 / y),
    simple("floor", "c = a // b", OPERATOR + "// on tensor 'a'", lambda x, y: np.floor(x / y)),
    simple("power", "c = b ** 2", OPERATOR + r"\*\* on tensor 'b'", lambda x, y: y**2),
    simple("matmul", "c = a @ b", OPERATOR + "@ on tensor 'a'", lambda x, y: x @ y),
    simple("negative", "c = -a", OPERATOR + "- on tensor 'a'", lambda x, y: -x),
    simple("positive", "c = +a", OPERATOR + r"\+ on tensor 'a'", lambda x, y: x),
    simple("absolute", "c = abs(a)", OPERATOR + "abs on tensor 'a'", lambda x, y: np.abs(x)),
    simple("greater", "c = a > b", OPERATOR + "> on tensor 'a'", lambda x, y: (x > y).astype(np.float32)),
    simple("less or equal", "c = a <= 0.5", OPERATOR + "<= on tensor 'a'", lambda x, y: (x <= 0.5).astype(np.float32)),
    simple("equal", "c = a == 1.0", OPERATOR + "== on tensor 'a'", lambda x, y: (x == 1).astype(np.float32)),
    simple("bits", "c = a & b", OPERATOR + "& on tensor 'a'", lambda x, y: x & y, WHOLE, WHOLE[::-1]),
    simple("shift", "c = a << 2", OPERATOR + "<< on tensor 'a'", lambda x, y: x << 2, WHOLE, WHOLE),
    simple("invert", "c = ~a", OPERATOR + "~ on tensor 'a'", lambda x, y: ~x, WHOLE, WHOLE),
    simple("nested", "c = (a + b) * 2.0 - a / b", OPERATOR + r"\+ on tensor 'a'", lambda x, y: (x + y) * 2 - x / y),
    simple("of slices", "c = a[:, 0:4] + b[:, 4:8]", OPERATOR + r"\+ on tensor 'a'", lambda x, y: x[:, :4] + y[:, 4:]),
    simple("of inputs", "c = x + y", OPERATOR + r"\+ on tensor 'x'", lambda x, y: x + y),
    simple("of calls", "c = nl.exp(a) + b", OPERATOR + r"\+ on tensor", lambda x, y: np.exp(x) + y),
    simple("in a call", "c = nl.exp(a - b)", OPERATOR + "- on tensor 'a'", lambda x, y: np.exp(x - y)),
    simple("column", "c = a * b", OPERATOR + r"\* on tensor 'a'", lambda x, y: x * y, X, COLUMN),
    simple("smaller", "c = min(a, b)", OPERATOR + ".* on tensor", lambda x, y: np.minimum(x, y)),
    Case("scale without a zero", load("""
        c = nl.ndarray((8, 8), dtype=nl.float8_e8m0fnu, buffer=nl.sbuf)
        nisa.memset(c, 0)  # wrong
        """), r"\[NKI-AR001/MS02\] memset: value=0 cannot be stored in 'c'.*never 0",
         lambda x, y: np.full((8, 8), 127, np.uint8).view(ml_dtypes.float8_e8m0fnu)),
    # In place
    Case("add in place", load("c = a\nc += b  # wrong"), OPERATOR + r"\+ on", lambda x, y: x + y),
    Case("multiply in place", load("c = a\nc *= 2.0  # wrong"), OPERATOR + r"\* on", lambda x, y: x * 2),
    Case("divide in place", load("c = a\nc /= b  # wrong"), OPERATOR + "/ on", lambda x, y: x / y),
    Case("column in place", load("c = a\nc -= b  # wrong"), OPERATOR + "- on", lambda x, y: x - y, (X, COLUMN)),
    Case("part in place", load("c = a\nc[:, 0:4] += b[:, 0:4]  # wrong"), OPERATOR + r"\+ on",
         lambda x, y: np.hstack([x[:, :4] + y[:, :4], x[:, 4:]])),
    Case("sum of products", load("""
        c = nl.zeros((8, 8), dtype=nl.float32, buffer=nl.psum)
        c += nl.matmul(a, b, transpose_x=True)  # wrong
        """), OPERATOR + r"\+ on tensor 'c'", lambda x, y: x.T @ y),
    # Assignment into a tensor
    Case("assign a number to HBM", """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out[:, :] = 7.0  # wrong
    return out
""", r"\[NKI-TN003\] assignment into 'out'", lambda x: x * 0 + 7, (X,)),
    Case("assign PSUM to HBM", """
@nki.jit
def kernel(x):
    t = nl.matmul(nl.load(x), nl.load(x), transpose_x=True)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out[0:8] = t  # wrong
    return out
""", r"\[NKI-BU001/DM01\] dma_copy: DMA cannot reach psum", lambda x: x.T @ x, (X,)),
    Case("assign a sum to HBM", """
@nki.jit
def kernel(x):
    t = nl.load(x)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    out[...] = t + t  # wrong
    return out
""", OPERATOR + r"\+ on tensor 't'", lambda x: x + x, (X,)),
    Case("assign a number", load("c = nl.copy(a)\nc[:, 0:4] = 0.0  # wrong"), ASSIGNED,
         lambda x, y: np.hstack([x[:, :4] * 0, x[:, 4:]])),
    Case("assign a shape", load("c = nl.copy(a)\nc.shape = (8, 4, 2)  # wrong\nc = nl.copy(c).reshape((8, 8))"),
         r"\[NKI-TN003\] `shape` of tensor 'c' \(8, 8\) cannot be assigned", lambda x, y: x),
    # Functions and methods of other libraries
    simple("np.exp", "c = np.exp(a)", r"\[NKI-TN003\] np.exp on tensor 'a' \(8, 8\)", lambda x, y: np.exp(x)),
    simple("np.sum", "c = np.sum(a, axis=1)", r"\[NKI-TN003\] np.sum on", lambda x, y: x.sum(1, keepdims=True)),
    simple("np.matmul", "c = np.matmul(a, b)", r"\[NKI-TN003\] np.matmul on", lambda x, y: x @ y),
    simple("torch.relu", "c = torch.relu(a)", r"\[NKI-TN003\] torch.relu on", lambda x, y: np.maximum(x, 0)),
    simple("functional.silu", "c = functional.silu(a)", r"\[NKI-TN003\] functional.silu on",
           lambda x, y: x * sigmoid(x)),
    simple("torch.sum", "c = torch.sum(a, dim=1)", r"\[NKI-TN003\] torch.sum on", lambda x, y: x.sum(1, keepdims=True)),
    simple("math.sqrt", "c = math.sqrt(b)", r"\[NKI-TN003\] math.sqrt on tensor 'b'", lambda x, y: np.sqrt(y)),
    simple("T", "c = a.T", r"\[NKI-FE031\] tensor 'a' \(8, 8\) has no `T`", lambda x, y: x.T),
    simple("astype", "c = a.astype(nl.bfloat16)", r"\[NKI-FE031\] tensor 'a' .* has no `astype`",
           lambda x, y: x.astype(ml_dtypes.bfloat16)),
    simple("astype of NumPy", "c = a.astype(np.float16)", r"\[NKI-FE031\] .* has no `astype`",
           lambda x, y: x.astype(np.float16)),
    simple("to", "c = a.to(torch.bfloat16)", r"\[NKI-FE031\] .* has no `to`",
           lambda x, y: x.astype(ml_dtypes.bfloat16)),
    simple("sum method", "c = a.sum()", r"\[NKI-FE031\] .* has no `sum`", lambda x, y: x.sum(1, keepdims=True)),
    simple("exp method", "c = a.exp()", r"\[NKI-FE031\] .* has no `exp`", lambda x, y: np.exp(x)),
    simple("copy method", "c = a.copy()", r"\[NKI-FE031\] .* has no `copy`", lambda x, y: x),
    simple("method of a sum", "c = nl.add(a, b).sum(axis=1)", r"\[NKI-FE031\] .* has no `sum`",
           lambda x, y: (x + y).sum(1, keepdims=True)),
    # Values that exist only on the device
    Case("if", load("""
        c = a
        if b[0, 0] > 0:  # wrong
            nisa.tensor_scalar(dst=c, data=c, op0=nl.multiply, operand0=2.0)
        """), r"\[NKI-TN003\] `if` on tensor 'b' \(1, 1\), which has values only when the kernel runs",
         lambda x, y: x * 2),
    Case("range of a tile", load("""
        c = a
        for i in range(b):  # wrong
            nisa.tensor_scalar(dst=c, data=c, op0=nl.multiply, operand0=2.0)
        """), r"\[NKI-TN003\] range of tensor 'b' \(1, 1\)", lambda x, n: x * 8, (X, THREE)),
    Case("range of a register", load("""
        c = a
        r = nisa.register_alloc(b)
        for i in range(r):  # wrong
            nisa.tensor_scalar(dst=c, data=c, op0=nl.multiply, operand0=2.0)
        """), r"\[NKI-RG001\] range of register 'r'", lambda x, n: x * 8, (X, THREE)),
    # Operands
    into("stationary not transposed", "psum", "nisa.nc_matmul(dst=c, stationary=a, moving=b)",
         r"\[NKI-SH001/MM01\] nc_matmul: stationary 'a' \(16, 8\)", lambda x, y: x @ y, TALL, Y, shape=(16, 8)),
    into("moving transposed", "psum", "nisa.nc_matmul(dst=c, stationary=a, moving=b)",
         r"\[NKI-SH001/MM01\] nc_matmul: stationary 'a'", lambda x, y: x.T @ y.T, X, TALL, shape=(8, 16)),
    into("product of another shape", "psum", "nisa.nc_matmul(dst=c, stationary=a, moving=b)",
         r"\[NKI-SH001/MM04\] nc_matmul: dst 'c' \(8, 8\)", lambda x, y: x.T @ y, X, WIDE),
    into("product in SBUF", "sbuf", "nisa.nc_matmul(dst=c, stationary=a, moving=b)",
         r"\[NKI-BU001/BU01\] nc_matmul: dst 'c' is in sbuf; it must be in psum", lambda x, y: x.T @ y),
    into("product of inputs", "psum", "nisa.nc_matmul(dst=c, stationary=x, moving=y)",
         r"\[NKI-BU001/TL01\] nc_matmul: stationary 'x' is in hbm", lambda x, y: x.T @ y),
    into("product of two dtypes", "psum", "nisa.nc_matmul(dst=c, stationary=a, moving=b)",
         r"\[NKI-DT002/MM05\] nc_matmul: stationary 'a' \(8, 8\) float32 with moving 'b'",
         lambda x, y: x.T @ y.astype(np.float32), X, HALF),
    into("scalar in bfloat16", "sbuf", "nisa.tensor_scalar(dst=c, data=a, op0=nl.multiply, operand0=b)",
         r"\[NKI-DT002/DT02\] tensor_scalar: operand0 'b' is bfloat16",
         lambda x, y: x * y.astype(np.float32), X, HALF[:, :1]),
    into("transposed to another dtype", "psum", "nisa.nc_transpose(dst=c, data=a)",
         r"\[NKI-DT002/NT02\] nc_transpose: dst 'c' is float32", lambda x, y: x.T, HALF, Y),
    into("a row", "sbuf", "nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)",
         r"\[NKI-SH001/SP01\] tensor_tensor: partitions differ", lambda x, y: x + y, X, ROW),
    into("a column", "sbuf", "nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.subtract)",
         r"\[NKI-SH001/SE01\] tensor_tensor: elements per partition differ", lambda x, y: x - y, X, COLUMN),
    into("a column first", "sbuf", "nisa.tensor_tensor(dst=c, data1=b, data2=a, op=nl.subtract)",
         r"\[NKI-SH001/SE01\] tensor_tensor: elements per partition differ", lambda x, y: y - x, X, COLUMN),
    into("a number", "sbuf", "nisa.tensor_tensor(dst=c, data1=a, data2=2.0, op=nl.multiply)",
         r"\[NKI-AR001\] tensor_tensor: data2 must be a tensor, not 2.0", lambda x, y: x * 2),
    Case("second operator", load("""
        c = a
        nisa.tensor_scalar(c, c, nl.multiply, 2.0, nl.add, 1.0)  # wrong
        """), r"\[NKI-AR001\] tensor_scalar: reverse0 must be True or False", lambda x, y: x * 2 + 1),
    into("slices of two sizes", "sbuf", "nisa.tensor_copy(dst=c, src=a[:, 0:5])",
         r"\[NKI-SH001/SE01\] tensor_copy: elements per partition differ", lambda x, y: x[:, :4], shape=(8, 4)),
    into("one partition", "sbuf", "nisa.tensor_copy(dst=c, src=a[0])",
         r"\[NKI-SH001/SP01\] tensor_copy: partitions differ", lambda x, y: np.repeat(x[:1], 8, 0)),
    into("start partition", "sbuf", "nisa.tensor_copy(dst=c, src=a[3:7])",
         r"\[NKI-SH002/TL03\] tensor_copy: src 'a' starts at partition 3", lambda x, y: x[3:7], shape=(4, 8)),
    Case("DMA of PSUM", """
@nki.jit
def kernel(x):
    t = nl.matmul(nl.load(x), nl.load(x), transpose_x=True)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=t)  # wrong
    return out
""", r"\[NKI-BU001/DM01\] dma_copy: DMA cannot reach psum", lambda x: x.T @ x, (X,)),
    Case("operator as text", load("c = a\nnisa.activation(dst=c, op='exp', data=a)  # wrong"),
         r"\[NKI-AR001\] activation: op must be an operator", lambda x, y: np.exp(x)),
    Case("operator of NumPy", load("c = a\nnisa.tensor_tensor(c, a, b, np.add)  # wrong"),
         r"\[NKI-AR001\] tensor_tensor: op must be an operator", lambda x, y: x + y),
    Case("operator as a sign", load("c = a\nnisa.tensor_scalar(c, a, '*', 2.0)  # wrong"),
         r"\[NKI-AR001\] tensor_scalar: op0 must be an operator", lambda x, y: x * 2),
    Case("comparison as a sign", load("c = a\nnisa.tensor_scalar(c, a, '>=', 0.5)  # wrong"),
         r"\[NKI-AR001\] tensor_scalar: op0 must be an operator", lambda x, y: (x >= 0.5).astype(np.float32)),
    simple("dtype of torch", "c = nl.copy(a, dtype=torch.float16)", r"\[NKI-DT001\] dtype torch.float16",
           lambda x, y: x.astype(np.float16)),
    simple("global array", "c = nl.add(nl.load(TABLE), a)", r"\[NKI-BU001\] nl.load: src is a ndarray",
           lambda x, y: x + np.arange(64, dtype=np.float32).reshape(8, 8)),
    Case("result of an instruction", """
@nki.jit
def kernel(x):
    t = nl.load(x)
    e = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
    e = nisa.activation(dst=e, op=nl.exp, data=t)  # wrong
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, e)
    return out
""", r"\[NKI-AR001\] `e` is an instruction, which line \d+ recorded, not a tensor", lambda x: np.exp(x), (X,)),
    simple("sum over partitions", "c = nl.sum(a, axis=0)", r"\[NKI-SH001\] nl.sum: axis=0 of 'a'",
           lambda x, y: x.sum(0, keepdims=True)),
    simple("a slice past the end", "c = nl.copy(a[:, 4:12])", r"\[NKI-TN001\] slice 4:12 of dimension 1 of 'a'",
           lambda x, y: x[:, 4:]),
    simple("a slice of an input", "c = nl.load(x[6:10])", r"\[NKI-TN001\] slice 6:10 of dimension 0 of 'x' \(8, 8\)",
           lambda x, y: x[6:]),
    # Results
    Case("tile returned", """
@nki.jit
def kernel(x):
    t = nl.load(x)
    return t  # wrong
""", r"\[NKI-KN004\] kernel 'kernel' returns 't', which is in sbuf", lambda x: x, (X,)),
    Case("view returned", """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out[0:4]  # wrong
""", r"\[NKI-KN004\] kernel 'kernel' returns a view \(4, 8\)", lambda x: x[:4], (X,)),
    Case("dictionary returned", """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return {"y": out, "rows": 8}  # wrong
""", r"\[NKI-KN004\] kernel 'kernel' returns a dict", lambda x: x, (X,)),
    Case("nothing returned", """
@nki.jit
def kernel(x):  # wrong
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
""", r"\[NKI-KN004\] kernel 'kernel' returns nothing", lambda x: x, (X,)),
    # Names
    simple("misspelt", "c = nl.multiplly(a, b)", r"\[NKI-FE031\] `nki.language` has no `multiplly`",
           lambda x, y: x * y),
    # Python that NKI does not have
    simple("no result argument", "c = nisa.activation(op=nl.exp, data=a)", r"\[NKI-FE032\] `nisa.activation` returns",
           lambda x, y: np.exp(x)),
    simple("operands as Beta 1 took them", "c = nisa.tensor_scalar(a, np.multiply, 2.0)",
           r"\[NKI-FE032\] `nisa.tensor_scalar` returns no result", lambda x, y: x * 2),
    simple("no result argument of a matmul", "c = nisa.nc_matmul(a, b)", r"\[NKI-FE032\] `nisa.nc_matmul` returns",
           lambda x, y: x.T @ y),
    Case("loaded twice", load("c = nl.add(nl.load(a), b)  # wrong"), r"\[NKI-BU001\] nl.load: src 'a' is in sbuf",
         lambda x, y: x + y),
    Case("not loaded", load("c = nl.add(x, b)  # wrong"), r"\[NKI-BU001\] nl.add: x 'x' is in hbm", lambda x, y: x + y),
    Case("a number loaded", load("c = nl.copy(nl.load(2.0))  # wrong"), r"\[NKI-BU001\] nl.load: src is a float",
         lambda x, y: np.full((1, 1), 2, np.float32)),
    Case("result in HBM", """
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.activation(dst=out, op=nl.exp, data=x)  # wrong
    return out
""", r"\[NKI-BU001/TL01\] activation: dst 'out' is in shared_hbm", lambda x: np.exp(x), (X,)),
    Case("a copy within SBUF", load("c = nl.copy(a)\nnl.store(c, b)  # wrong"),
         r"\[NKI-BU001\] nl.store: dst 'c' is in sbuf", lambda x, y: y),
]  # fmt: skip


def imported(text: str, file: Path) -> Any:
    """The module with this text."""
    file.write_text(text, encoding="utf-8")
    sys.modules.pop("kernel_with_a_mistake", None)
    spec = importlib.util.spec_from_file_location("kernel_with_a_mistake", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def refused(text: str, file: Path, inputs: tuple[Any, ...], simulate: bool) -> NkiError:
    kernel = imported(text, file).kernel
    with pytest.raises(NkiError) as caught:
        (nki.simulate(kernel) if simulate else kernel)(*inputs)
    return caught.value


def repaired(text: str, error: NkiError) -> str:
    """The program with the code of the error's fix in place of what it is about."""
    codes = re.findall(r"`([^`]+)`", error.fix)
    assert codes, f"the fix gives no code: {error.fix}"
    lines = text.split("\n")
    span = error.span
    assert span is not None
    if error.fix.startswith("did you mean"):
        line = lines[span.line - 1]
        lines[span.line - 1] = line[: span.column] + codes[0] + line[span.end_column :]
        return "\n".join(lines)
    if error.fix.startswith("end the kernel with"):
        return text.rstrip() + f"\n    {codes[0]}\n"
    elsewhere = re.match(r"in line (\d+) write", error.fix)
    number = int(elsewhere[1]) if elsewhere else span.line
    both = error.fix.startswith("allocate the destination")
    code = "\n".join(codes[:2]) if both else textwrap.dedent(codes[0].strip("\n")) if "\n" in codes[0] else codes[0]
    # The innermost statement of the line: of a block its head, with the block.
    statement = max(
        (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt) and n.lineno <= number <= (n.end_lineno or 0)),
        key=lambda n: n.lineno,
    )
    indent = " " * statement.col_offset
    lines[statement.lineno - 1 : statement.end_lineno] = [indent + part for part in code.split("\n")]
    return "\n".join(lines)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_the_code_of_the_fix_works(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


def check(case: Case, tmp_path: Path) -> None:
    """Fail unless the error is reported at its line, in both executors alike, and its fix gives the right result."""
    text = HEADER + case.body
    marked = next(number for number, line in enumerate(text.split("\n"), 1) if line.endswith("# wrong"))
    file = tmp_path / "kernel.py"
    error = refused(text, file, case.inputs, simulate=False)
    assert re.match(case.report, str(error)), str(error)
    assert error.span is not None and error.span.line == marked, str(error)
    assert str(refused(text, file, case.inputs, simulate=True)) == str(error)
    kernel = imported(repaired(text, error), tmp_path / "repaired.py").kernel
    expected = case.expected(*case.inputs)
    for run in (kernel, nki.simulate(kernel)):
        result = np.asarray(run(*case.inputs))
        assert result.dtype == expected.dtype, error.fix
        wide = result.astype(np.float64).reshape(expected.shape)
        np.testing.assert_allclose(wide, expected.astype(np.float64), rtol=case.tolerance, atol=1e-5, err_msg=error.fix)
