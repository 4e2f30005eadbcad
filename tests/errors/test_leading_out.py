"""Reports that lead out: the argument, the cell, the frame and the version that they name."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import NkiError
from nki.base.source import Span, folded
from nki.base.version import version
from nki.base.warning import NkiWarning

A = np.ones((4, 4), np.float32)


def copied(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    return out


kernel = nki.jit(copied)


def text_of(call: Any) -> str:
    with pytest.raises(NkiError) as caught:
        call()
    return str(caught.value)


@nki.jit
def of_three(first, second, third):
    return first


@pytest.mark.parametrize("run", [of_three, nki.simulate(of_three)], ids=["native", "eager"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (A.astype(np.float64), ["dtype float64", "pass second.astype(np.float32)"]),
        (A[:0], ["shape (0, 4) has no elements"]),
        (np.zeros((), np.float32), ["rank 0"]),
        (A.astype(">f4"), ["bytes in the order of another machine", "second.astype(second.dtype.newbyteorder('='))"]),
        ({1}, ["is of type set"]),
    ],
    ids=["dtype", "empty", "rank", "order", "type"],
)
def test_the_argument_and_the_kernel_are_named(run: Any, wrong: Any, words: list[str]) -> None:
    text = text_of(lambda: run(A, wrong, A))
    for word in ["argument 'second' of kernel 'of_three'", *words]:
        assert word in text


def test_a_forgotten_decorator() -> None:
    text = text_of(lambda: copied(A))
    assert (
        "nl.ndarray was called outside a kernel, in `copied`" in text and "write `@nki.jit` above `def copied`" in text
    )
    assert f"test_leading_out.py:{copied.__code__.co_firstlineno + 1}" in text
    for call in (
        lambda: nl.load(A),
        lambda: nl.exp(A),
        lambda: nl.add(A, A),
        lambda: nl.store(A, A),
        lambda: nl.matmul(A, A),
    ):
        assert "NKI-KN001" in text_of(call)


class Model:
    @nki.jit
    def forward(self, a):
        return a


@nki.jit
def by_name(a, *, n):
    return a


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning")
def test_arguments_that_do_not_fit_name_the_line_of_the_kernel() -> None:
    method, keyword = text_of(lambda: Model().forward(A)), text_of(lambda: by_name(A, 3))
    assert "define `forward` outside the class, without `self`" in method and "def forward(self, a):" in method
    assert "pass `n` by name" in keyword and "def by_name(a, *, n):" in keyword


def test_grids_modes_and_axes_of_older_releases() -> None:
    grid = text_of(lambda: kernel[16, 8])
    assert "`for i0 in range(16):` `for i1 in range(8):`" in grid
    assert "leave `mode` out" in text_of(lambda: nki.jit(mode="bogus"))

    @nki.jit
    def second_axis(a):
        return a[nl.program_id(1)]

    assert "write `nl.program_id(0)`" in text_of(lambda: second_axis(A))


def test_warnings_name_the_version() -> None:
    @nki.jit
    def warned(a):
        nl.load(a)
        return a

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warned(A)
        nki.jit(mode="jax")(copied)
    texts = [str(w.message) for w in caught if issubclass(w.category, NkiWarning)]
    assert len(texts) == 2 and all(text.endswith(f" (open-nki {version()})") for text in texts)


def forever(n):
    return forever(n + 1)


def thrice(n):
    return thrice(n - 1) if n else 1 // n


@nki.jit
def recursive(a, n):
    return thrice(n) if n else forever(0)


def test_recursion_folds() -> None:
    endless = text_of(lambda: recursive(A, 0))
    assert endless.count("called from") == 2 and "(more than 99 times)" in endless
    assert "(3 times)" in text_of(lambda: recursive(A, 3))
    a, b = Span("f", 1), Span("f", 2)
    assert [str(place) for place in folded([a, a, b, a])] == ["f:1 (2 times)", "f:2", "f:1"]


def test_a_notebook_names_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def label(file: str) -> tuple[str, str] | None:
        return ("Cell", "In[3]") if file == __file__ else None

    shell = types.SimpleNamespace(compile=types.SimpleNamespace(format_code_name=label))
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    assert f"--> In[3]:{copied.__code__.co_firstlineno + 1}" in text_of(lambda: copied(A))
    assert str(Span("other.py", 1)) == "other.py:1"


def test_pytest_shows_the_users_frames_only(tmp_path: Path) -> None:
    file = tmp_path / "test_of_a_user.py"
    file.write_text(
        textwrap.dedent("""
            import numpy as np, nki, nki.language as nl

            @nki.jit
            def kernel(a):
                return nl.load(a) + 1

            def test_it():
                kernel(np.ones((4, 4), np.float32))

            def test_simulated():
                nki.simulate(kernel)(np.ones((4, 4), np.float32))
        """)
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert "2 failed" in done.stdout and "write `return nl.add(nl.load(a), 1)`" in done.stdout
    assert "jit.py" not in done.stdout and "_strip_frames" not in done.stdout


def test_an_instruction_says_what_it_takes() -> None:
    @nki.jit
    def engine(a):
        t = nl.load(a)
        nisa.tensor_copy(t, t, engine="vector")
        return a

    text = text_of(lambda: engine(A))
    assert "nisa.engine.vector" in text and "help(nki" not in text
