"""What reports say and what they leave out, where their fix is no code that could be put in."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.errors.test_advice import HEADER, X, refused

pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning")

STORED = "out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\nnisa.dma_copy(out, {})\nreturn out"
FIRST = "the destination comes first"
# The mistake; the body of a kernel of x, where t is a tile of x and u one that nothing has written; what is said.
SAID: dict[str, tuple[str, list[str]]] = {
    # Swapped
    "a copy with its tiles swapped": (
        "nisa.tensor_copy(t, u)\nreturn x",
        [f"fix: if 'u' is to receive the result, pass it as dst and 't' as src: {FIRST}; else write it first"]),
    "a function with its tiles swapped": (
        "nisa.activation(t, nl.exp, u)\nreturn x",
        [f"fix: if 'u' is to receive the result, pass it as dst and 't' as data: {FIRST}; else write it first"]),
    "a fresh destination is not called swapped": (
        "v = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)\nnisa.tensor_copy(v, u)\n" + STORED.format("v"),
        ["[NKI-HZ001]", "fix: write it first"]),
    "a load with its operands swapped": (
        "nisa.dma_copy(x, u)\n" + STORED.format("u"),
        [f"fix: {FIRST}: nothing writes 'u', so pass it as dst, and 'x' in its place"]),
    "an output and an input swapped": (
        "out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\nnl.store(x, out)\nreturn out",
        [f"fix: {FIRST}: nothing writes 'out', so pass it as dst"]),
    "a column is not called swapped": (
        "s = nl.ndarray((8, 1), nl.float32, buffer=nl.sbuf)\nnisa.tensor_scalar(t, t, nl.multiply, s)\nreturn x",
        ["fix: write it first"]),
    # Not set
    "a sum without a beginning": (
        "for _ in range(4):\n    nisa.tensor_tensor(u, u, t, nl.add)\n" + STORED.format("u"),
        ["fix: set it first: a sum begins with `nisa.memset(u, 0.0)` in front of its loop"]),
    "a reduction without a command": (
        "s = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)\n"
        "nisa.activation(dst=t, op=nl.exp, data=t, reduce_op=nl.add, reduce_res=s)\nnl.store(x[:, 0:1], s)\nreturn x",
        ["activation reads the reduction registers of the Scalar engine, which were not set",
         "fix: pass reduce_cmd=nisa.reduce_cmd.reset_reduce"]),
    # Tensors as something else
    "a bank filled by DMA": (
        "p = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)\nnisa.dma_copy(p, x)\nreturn x",
        ["and copy on chip: write `nisa.tensor_copy(dst=p, src=nl.load(x))`"]),
    "a sum of tiles in a list": (
        "return sum([nl.load(x), nl.load(x)])", ["fix: write `functools.reduce(nl.add, [nl.load(x), nl.load(x)])`"]),
    "an assertion on a tile, which nl.equal would make true": (
        "assert t[0, 0] == 0\nreturn x", ["`assert` on a tensor", "-nl.equal"]),
    "a branch on a tile beside a condition of Python": (
        "if x.shape[0] == 8 and t > 0:\n    nisa.memset(t, 0.0)\nreturn x",
        ["fix: compute both results and choose element by element: `nl.where(nl.greater(t, 0), x, y)`, inside `if x"]),
    "a loop count of floats": (
        "for _ in range(x[0, 0]):\n    pass\nreturn x",
        ["nisa.register_alloc(nl.copy(nl.load(x[0, 0]), dtype=nl.int32))"]),
    "a pointer": (
        "return nl.load(x + 128)",
        ["fix: a tensor is no pointer: pass the part that is meant, `x[start:start + size, :]`"]),
    "a sum of inputs in a store is no pointer": (
        "out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\nnl.store(out, x + 1.0)\nreturn out",
        ["fix: write `nl.store(out, nl.add(nl.load(x), 1.0))`"]),
    "the greater of elements and zero": (
        "return nl.max(nl.load(x), 0)",
        ["for the maximum of each element and 0 write `nl.maximum(nl.load(x), 0)`"]),
    "a new dimension in an index": (
        "nisa.tensor_copy(t[:, None, :], t)\nreturn x",
        ["index None of 't' of shape (8, 8): an index adds no dimension", "t.expand_dim(1)"]),
    # Numbers
    "a quotient in range": (
        "for _ in range(x.shape[0] / 2):\n    pass\nreturn x",
        ["fix: a quotient is a float: write `range(x.shape[0] // 2)`"]),
    "a quotient with a remainder": ("for _ in range(x.shape[0] / 3):\n    pass\nreturn x", ["-//"]),
    "a quotient in a variable": (
        "half = x.shape[0] / 2\nnl.load(x[0:half])\nreturn x",
        ["fix: `half` is 4.0, a float: divide with `//` where it is computed, or write `int(half)`"]),
    # Arguments
    "an argument that is None": (
        "v = nl.ndarray(other.shape, x.dtype, buffer=nl.sbuf)\nreturn put(v)",
        ["AttributeError: 'NoneType' object has no attribute 'shape'",
         "fix: pass a tensor for `other`, or write `if other is not None:` before it is used"]),
}  # fmt: skip


def report(body: str, file: Path, arguments: tuple[Any, ...], simulate: bool) -> str:
    lines = "t = nl.load(x)\nu = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)\n" + body
    text = f"{HEADER}\n@nki.jit\ndef kernel(x, other=None):\n{textwrap.indent(lines, '    ')}\n"
    return re.sub(r"\s+", " ", str(refused(text, file, arguments, simulate)))


NATIVE = {"a load with its operands swapped", "an output and an input swapped"}
"""The compiler sees that nothing writes the source at all; the simulator says what to do in both cases."""


@pytest.mark.parametrize(("name", "simulate"), [(name, run) for name in SAID for run in {False, name not in NATIVE}])
def test_what_is_said(name: str, simulate: bool, tmp_path: Path) -> None:
    """Words behind a minus are not."""
    body, words = SAID[name]
    found = report(body, tmp_path / "kernel.py", (X,), simulate)
    for each in words:
        assert (each.removeprefix("-") in found) == (not each.startswith("-")), found


@pytest.mark.parametrize(("value", "kind"), [("text", "str"), (2.5, "float"), ((1, 2), "tuple")])
def test_an_argument_that_is_no_tensor(value: Any, kind: str, tmp_path: Path) -> None:
    body = "return put(nl.ndarray((8, 8), other.dtype, buffer=nl.sbuf))"
    words = f"fix: `other` is a {kind}: pass a tensor, or for a kernel argument an array"
    assert words in report(body, tmp_path / "kernel.py", (X, value), False)
