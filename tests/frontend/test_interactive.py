"""Kernels that are typed: at Python's prompt (a terminal), in cells of notebooks, made by ``exec``, and as lambdas.

They run, and errors name the line that was typed, with its text where a notebook keeps it.
"""

from __future__ import annotations

import linecache
import os
import pty
import re
import select
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
from nki.base.warning import NkiPortabilityWarning

A = np.arange(8, dtype=np.float32).reshape(2, 4)

# The prompt

PROMPT = [
    "import numpy as np, nki, nki.language as nl, nki.isa as nisa",
    "def put(x, t):\n    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n    nl.store(out, t)\n"
    "    return out\n",
    "@nki.jit\ndef kernel(x, n=2):\n    t = nl.load(x)\n    for _ in range(n):\n"
    "        nisa.tensor_scalar(t, t, nl.add, 1.0)\n    return put(x, t)\n",
    "X = np.full((2, 2), 7, np.float32)",
    "print('sum', kernel(X).sum(), nki.simulate(kernel)(X).sum())",
    "print('more', kernel(X, n=5).sum())",
    "def put(x, t):\n    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n    # not in HBM\n"
    "    nisa.tensor_copy(out, t)\n    return out\n",
    "kernel(X)",
    "bad = nki.jit(lambda x: nl.load(x).missing)",
    "bad(X)",
]


def typed(statements: list[str], tmp_path: Any) -> str:
    """The session of an interactive Python that gets ``statements``, line by line, through a terminal."""
    environment = {**os.environ, "TERM": "dumb", "PYTHON_BASIC_REPL": "1", "NO_COLOR": "1"}
    here, there = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-i", "-q"], stdin=there, stdout=there, stderr=there, env=environment, cwd=tmp_path
    )
    os.close(there)
    shown = ""

    def await_prompt(deadline: float) -> None:
        nonlocal shown
        start = len(shown)
        while not shown[start:].endswith((">>> ", "... ")):
            if not select.select([here], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no prompt:\n{shown}")
            shown += os.read(here, 65536).decode()

    try:
        await_prompt(time.monotonic() + 60)
        for line in "\n".join(statements).split("\n"):
            os.write(here, line.encode() + b"\n")
            await_prompt(time.monotonic() + 60)
    finally:
        process.kill()
        process.wait()
        os.close(here)
    return shown.replace("\r\n", "\n")


def test_kernels_typed_at_the_prompt(tmp_path: Any) -> None:
    shown = typed(PROMPT, tmp_path)
    assert "sum 36.0 36.0" in shown, shown
    assert "more 48.0" in shown
    errors = re.findall(r"^\S*Error: \[(NKI-\w+).*\n  --> <stdin>(?:-\d+)?:(\d+)((?:\n  .*)*)", shown, re.MULTILINE)
    assert [(code, line) for code, line, _ in errors] == [("NKI-BU001", "4"), ("NKI-FE031", "1")], shown
    assert re.search(r"called from <stdin>(-\d+)?:6", errors[0][2])
    # From 3.13 on Python keeps what was typed, each statement in a file of its own.
    no_source = shown.count("`kernel` has no source: it was typed at the Python prompt")
    assert no_source == (1 if sys.version_info < (3, 13) else 0)
    assert ("4 |     nisa.tensor_copy(out, t)" in errors[0][2]) == (sys.version_info >= (3, 13))


# Cells of notebooks

CELLS = ["<ipython-input-{n}-0a1b2c3d4e5f>", "/tmp/ipykernel_4242/{n}.py", "<python-input-{n}>"]
HEADER = "import numpy as np\nimport nki\nimport nki.isa as nisa\nimport nki.language as nl\n"


class Notebook:
    """Cells run in one namespace, each under a file name of its own, with its text in ``linecache``, as in IPython."""

    def __init__(self, names: str) -> None:
        self.names = names
        self.space: dict[str, Any] = {"__name__": "__main__"}
        self.files: list[str] = []

    def run(self, text: str) -> str:
        file = self.names.format(n=len(self.files) + 1)
        self.files.append(file)
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.space)
        return file


@pytest.fixture(params=CELLS, ids=["ipython", "ipykernel", "prompt"])
def notebook(request: pytest.FixtureRequest) -> Iterator[Notebook]:
    notebook = Notebook(request.param)
    notebook.run(HEADER)
    yield notebook
    for file in notebook.files:
        linecache.cache.pop(file, None)


HELPER = """\
def put(x, t):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    nl.store(out, t)
    return out
"""
KERNEL = """\
# a comment in front
@nki.jit
def kernel(x):
    t = nl.load(x)
    return put(x, t)
"""


@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
def test_a_kernel_in_a_cell(notebook: Notebook, eager: bool) -> None:
    notebook.run(HELPER)
    notebook.run(KERNEL)
    kernel = notebook.space["kernel"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a cell has its source text
        np.testing.assert_array_equal((nki.simulate(kernel) if eager else kernel)(A), A)


@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
def test_errors_show_the_line_of_the_cell(notebook: Notebook, eager: bool) -> None:
    notebook.run("N = 3\n" * 20)
    helper = notebook.run(HELPER.replace("nl.store(out, t)", "nl.store(out, t[0:1])"))
    cell = notebook.run(KERNEL)
    kernel = notebook.space["kernel"]
    with pytest.raises(NkiError) as caught:
        (nki.simulate(kernel) if eager else kernel)(A)
    text = str(caught.value)
    assert f"--> {helper}:4\n    4 |     nl.store(out, t[0:1])\n      |     ^^^^^^^^^^^^^^^^^^^^^" in text
    assert f"called from {cell}:5" in text


def test_a_cell_that_is_run_again_is_another_kernel(notebook: Notebook) -> None:
    notebook.run(HELPER)
    notebook.run(KERNEL)
    old = notebook.space["kernel"]
    np.testing.assert_array_equal(old(A), A)
    notebook.run(KERNEL.replace("t = nl.load(x)", "t = nl.add(nl.load(x), 1.0)"))
    np.testing.assert_array_equal(notebook.space["kernel"](A), A + 1)
    np.testing.assert_array_equal(old(A), A)
    notebook.run(HELPER.replace("nl.store(out, t)", "nl.store(out, nl.multiply(t, 2.0))"))
    np.testing.assert_array_equal(old(A), 2 * A)
    np.testing.assert_array_equal(notebook.space["kernel"](A), 2 * (A + 1))


def test_a_syntax_of_older_releases_in_a_cell(notebook: Notebook) -> None:
    notebook.run(HELPER)
    cell = notebook.run(KERNEL.replace("t = nl.load(x)", "n = {1, 2}\n    t = nl.load(x)"))
    with pytest.warns(NkiPortabilityWarning, match="NKI-FE021") as caught:
        notebook.space["kernel"](A)
    assert [(one.filename, one.lineno) for one in caught] == [(cell, 4)]


# Text that exec and eval run

MADE = """
def kernel(x):
    t = nl.load(x)
    nisa.tensor_copy(
        t,
        t[0:1],
    )
    return x
"""


@pytest.mark.parametrize("file", ["<string>", "<made by a template>", "template.py"])
def test_errors_in_text_that_exec_runs(file: str) -> None:
    space: dict[str, Any] = {"nl": nl, "nisa": nisa, "__name__": "made"}
    exec(compile(MADE, file, "exec"), space)
    with pytest.warns(NkiPortabilityWarning, match="has no source"), pytest.raises(NkiError) as caught:
        nki.jit(space["kernel"])(A)
    assert f"--> {file}:4" in str(caught.value)


def store(x: Any, t: Any) -> Any:
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, t)
    return out


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")
def test_errors_in_lambdas() -> None:
    # fmt: off
    good, bad = nki.jit(lambda x: store(x, nl.load(x))), nki.jit(lambda x: store(x, nl.load(x)[0:1]))
    attribute = nki.jit(lambda x: nl.load(x).missing); line = sys._getframe().f_lineno  # noqa: E702
    # fmt: on
    np.testing.assert_array_equal(good(A), A)
    for run in (bad, nki.simulate(bad)):
        with pytest.raises(NkiError) as caught:
            run(A)
        assert f"called from {__file__}:{line - 1}" in str(caught.value)
    with pytest.raises(NkiError) as caught:
        attribute(A)
    shown = str(caught.value)
    assert f"--> {__file__}:{line}\n" in shown
    assert re.search(r"\n +\| +\^+", shown)
    with pytest.raises(NkiError) as caught:
        nki.jit(eval("lambda x: (\n    x.missing)"))(A)
    assert "--> <string>:2" in str(caught.value)
