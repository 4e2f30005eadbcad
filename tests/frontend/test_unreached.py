"""Python that NKI does not have is no mistake where it is not reached, and is one, at its line, where it is."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import NkiError
from tests.support.written_module import written

pytestmark = pytest.mark.usefixtures("nki_0_6")

HEADER = """\
import os
import nki
import nki.isa as nisa
import nki.language as nl

STATE = [0]


def put(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


@nki.jit
def kernel(x, reached=False):
"""
A = np.ones((4, 4), np.float32)


def kernel_of(body: str, file: Path) -> Any:
    return written(HEADER + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n", file).kernel


REFUSED = {
    "raise ValueError(f'shape {x.shape}')": "FE014",
    "raise": "FE014",
    "import json": "FE017",
    "from os import path": "FE017",
    "with open('f') as f:\n    pass": "FE012",
    "try:\n    pass\nexcept ValueError:\n    pass": "FE013",
    "class Local:\n    pass": "FE018",
    "del x": "FE016",
    "match x:\n    case _:\n        pass": "FE019",
    "async def f():\n    pass": "FE011",
    "y = {1, 2}": "FE021",
    "y = b'bytes'": "FE021",
    "y = 2j": "FE021",
    "y = {i for i in range(2)}": "FE021",
    "y = {1: 2}": "FE022",
    "print(y := 2)": "FE020",
    "yield x": "FE010",
    "y = yield": "FE010",
    "open('f')": "FE026",
    "os.system('true')": "FE026",
    "y = set()": "FE021",
    "y = frozenset([1])": "FE021",
    "y = bytearray(2)": "FE021",
    "y = complex(1, 2)": "FE021",
    "STATE[0] = 1": "FE027",
    "STATE.append(1)": "FE027",
    "while 1 < 2:\n    pass": "FE028",
}
PLACES = {
    "if": ("if reached:\n{0}\nreturn put(x)", 4),
    "else": ("if not reached:\n    pass\nelse:\n{0}\nreturn put(x)", 4),
    "behind a return": ("if not reached:\n    return put(x)\n{0}\nreturn put(x)", 0),
    "behind a break": ("for i in range(2):\n    if not reached:\n        break\n{0}\nreturn put(x)", 4),
    "while": ("n = 1 if reached else 0\nwhile n > 0:\n    n = n - 1\n{0}\nreturn put(x)", 4),
    "nested function": ("def inner():\n    z = x\n{0}\nif reached:\n    inner()\nreturn put(x)", 4),
}


@pytest.mark.parametrize("statement", REFUSED, ids=[text.partition("\n")[0] for text in REFUSED])
@pytest.mark.parametrize("place", PLACES)
def test_refused_only_where_it_is_reached(place: str, statement: str, tmp_path: Path) -> None:
    if place == "nested function" and statement == "del x":
        pytest.skip("makes the name a local one, in Python as well")
    form, depth = PLACES[place]
    kernel = kernel_of(form.format(textwrap.indent(statement, " " * depth)), tmp_path / "kernel.py")
    np.testing.assert_array_equal(kernel(A), A)
    np.testing.assert_array_equal(nki.simulate(kernel)(A), A)
    for run in (kernel, nki.simulate(kernel)):
        with pytest.raises(NkiError) as caught:
            run(A, reached=True)
        assert caught.value.code == f"NKI-{REFUSED[statement]}"
        text = (tmp_path / "kernel.py").read_text(encoding="utf-8").split("\n")
        assert caught.value.span is not None
        shown = text[caught.value.span.line - 1].strip()
        assert shown in (statement.split("\n")[0], statement.split("\n")[-1].strip())


@pytest.mark.parametrize("expression", ["{1, 2}", "b'b'", "2j", "set()", "{1: 2}"])
@pytest.mark.parametrize(
    "form", ["y = {0} if reached else 0", "y = reached and {0}", "y = [{0} for i in range(reached)]"]
)
def test_expressions_that_are_not_evaluated(form: str, expression: str, tmp_path: Path) -> None:
    kernel = kernel_of(f"{form.format(expression)}\nreturn put(x)", tmp_path / "kernel.py")
    np.testing.assert_array_equal(kernel(A), A)
    with pytest.raises(NkiError, match=r"NKI-FE02[12]"):
        kernel(A, reached=True)


def test_a_reached_raise_says_what_it_raised(tmp_path: Path) -> None:
    kernel = kernel_of(
        "if x.shape[0] == 4:\n    raise ValueError(f'shape {x.shape}')\nreturn put(x)", tmp_path / "k.py"
    )
    with pytest.raises(NkiError) as caught:
        kernel(A)
    text = str(caught.value)
    assert "NKI has no `raise`; this one is reached: ValueError: shape (4, 4)" in text
    assert "fix: write `assert x.shape[0] != 4, f'shape {x.shape}'` for the `if`" in text


def test_what_is_sure_to_run_is_reported_at_once(tmp_path: Path) -> None:
    kernel = kernel_of("y = {1, 2}\nz = 2j\nif reached:\n    raise ValueError\nreturn put(x)", tmp_path / "kernel.py")
    with pytest.raises(NkiError) as caught:
        kernel(A)
    assert "2 errors in kernel" in str(caught.value)
    assert re.findall(r"NKI-FE\d+", str(caught.value)) == ["NKI-FE000", "NKI-FE021", "NKI-FE021"]


def test_a_function_that_the_kernel_calls(tmp_path: Path) -> None:
    body = "def check(y):\n    if y.shape[0] > 128:\n        raise ValueError\n    return y\nreturn put(check(x))"
    np.testing.assert_array_equal(kernel_of(body, tmp_path / "kernel.py")(A), A)


def test_global_means_the_whole_function(tmp_path: Path) -> None:
    with pytest.raises(NkiError, match="NKI-FE015"):
        kernel_of("if reached:\n    global STATE\n    STATE = 1\nreturn put(x)", tmp_path / "kernel.py")(A)
