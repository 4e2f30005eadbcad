"""Python that releases of NKI before 0.7 refuse: it runs with one warning per place, silently, or is an error.

The release is chosen by the environment; by default all that any release accepts is accepted.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import NkiError, RegisterUseError
from nki.base.warning import NkiPortabilityWarning, NkiWarning
from nki.cli import main
from nki.frontend.dialect import default_dialect
from nki.frontend.frontend_errors import ReleaseError, RemovedApiError
from tests.support.written_module import written

HEADER = """\
import contextlib
import functools
import os
import nki
import nki.isa as nisa
import nki.language as nl

STATE = [0]
COUNT = 0
VALUES = (2, 3)


class Table(nl.NKIObject):
    rows = None


def put(x, *values):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for value in values:
        nisa.tensor_scalar(tile, tile, nl.add, float(value))
    nl.store(out, tile)
    return out


"""
A = np.ones((4, 4), np.float32)

CONSTRUCTS = {
    "yield": ("def f():\n    yield 2\n    z = 1\nreturn put(x, *f())", {"FE010"}, 3.0),
    "yield from": ("def f():\n    yield from VALUES\nreturn put(x, *f())", {"FE010"}, 6.0),
    "with": ("with contextlib.nullcontext(3) as n:\n    pass\nreturn put(x, n)", {"FE012"}, 4.0),
    "try": ("try:\n    n = VALUES[7]\nexcept IndexError:\n    n = 5\nreturn put(x, n)", {"FE013"}, 6.0),
    "finally": ("n = 1\ntry:\n    n = 2\nfinally:\n    n = n + 1\nreturn put(x, n)", {"FE013"}, 4.0),
    "raise": (
        "try:\n    raise ValueError(4)\nexcept ValueError as e:\n    n = e.args[0]\nreturn put(x, n)",
        {"FE013", "FE014"},
        5.0,
    ),
    "global": ("global COUNT\nCOUNT = 2\nreturn put(x, COUNT)", {"FE015"}, 3.0),
    "nonlocal": ("n = 1\ndef f():\n    nonlocal n\n    n = 7\nf()\nreturn put(x, n)", {"FE015"}, 8.0),
    "del": ("n = 1\nm = n\ndel n\nreturn put(x, m)", {"FE016"}, 2.0),
    "import": ("import math\nreturn put(x, math.floor(2.5))", {"FE017"}, 3.0),
    "from": ("from math import floor as f\nreturn put(x, f(2.5))", {"FE017"}, 3.0),
    "class": (
        "class C:\n    n = 2\n    m = n + 1\n    def get(self):\n        return self.m\nreturn put(x, C().get())",
        {"FE018"},
        4.0,
    ),
    "match": (
        "match VALUES:\n    case [a, *rest]:\n        n = a + len(rest)\n    case _:\n        n = 0\nreturn put(x, n)",
        {"FE019"},
        4.0,
    ),
    "walrus": ("n = (m := 3) + m\nreturn put(x, n)", {"FE020"}, 7.0),
    "set": ("n = {1, 2, 2}\nreturn put(x, len(n))", {"FE021"}, 3.0),
    "set comprehension": ("n = {i % 2 for i in range(4)}\nreturn put(x, len(n))", {"FE021"}, 3.0),
    "frozenset": ("n = frozenset(VALUES)\nreturn put(x, len(n))", {"FE021"}, 3.0),
    "bytes": ("n = b'abc'\nreturn put(x, len(n))", {"FE021"}, 4.0),
    "complex": ("n = 3 + 2j\nreturn put(x, n.real)", {"FE021"}, 4.0),
    "key": ("n = {1: 2}\nreturn put(x, n[1])", {"FE022"}, 3.0),
    "key at run time": ("n = {}\nn[VALUES] = 4\nreturn put(x, n[VALUES])", {"FE022"}, 5.0),
    "key of an attribute": (
        "table = Table()\ntable.rows = {}\ntable.rows[7] = 4\nreturn put(x, table.rows[7])",
        {"FE022"},
        5.0,
    ),
    "key of pairs": ("n = dict(zip(VALUES[:1], [4]))\nreturn put(x, n[2])", {"FE022"}, 5.0),
    "key of an iterator": ("n = {}\nn.update(iter([(2, 4)]))\nreturn put(x, n[2])", {"FE022"}, 5.0),
    "key of a default": ("n = {}\nreturn put(x, n.setdefault(2.5, 4))", {"FE022"}, 5.0),
    "keys of one value": ("return put(x, dict.fromkeys(VALUES[:1], 4)[2])", {"FE022"}, 5.0),
    "decorator": (
        "@functools.lru_cache\ndef f(n):\n    return n * 2\nreturn put(x, f(2))",
        {"FE025"},
        5.0,
    ),
    "eval": ("return put(x, eval('1 + 1'))", {"FE026"}, 3.0),
    "outside": ("STATE[0] = 6\nreturn put(x, 6)", {"FE027"}, 7.0),
}


def module_of(text: str, file: Path) -> Any:
    return written(HEADER + text, file)


def kernel_of(body: str, file: Path, parameters: str = "x") -> Any:
    return module_of(f"@nki.jit\ndef kernel({parameters}):\n{textwrap.indent(body, '    ')}\n", file).kernel


def told(run: Any, *args: Any) -> tuple[Any, list[warnings.WarningMessage]]:
    """The result of a run and the warnings of this package in it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(*args)
    return result, [one for one in caught if issubclass(one.category, NkiWarning)]


@pytest.mark.parametrize("name", CONSTRUCTS)
@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
def test_it_runs_with_one_warning_per_place(name: str, eager: bool, tmp_path: Path) -> None:
    body, codes, expected = CONSTRUCTS[name]
    kernel = kernel_of(body, tmp_path / "kernel.py")
    result, caught = told(nki.simulate(kernel) if eager else kernel, A)
    np.testing.assert_array_equal(result, np.full_like(A, expected))
    portable = [one for one in caught if one.category is NkiPortabilityWarning]
    texts = [str(one.message) for one in portable]
    assert {match[1] for text in texts if (match := re.match(r"\[NKI-(FE\d+)\]", text))} == codes
    assert all("NKI 0.7 is the first release that takes this. For older ones, " in text for text in texts)
    places = [(one.filename, one.lineno, text) for one, text in zip(portable, texts, strict=True)]
    assert len(places) == len(set(places)) == len(codes)
    assert {one.filename for one in portable} == {str(tmp_path / "kernel.py")}


@pytest.mark.usefixtures("nki_0_7")
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_its_own_release_is_silent(name: str, tmp_path: Path) -> None:
    body, _, expected = CONSTRUCTS[name]
    result, caught = told(kernel_of(body, tmp_path / "kernel.py"), A)
    np.testing.assert_array_equal(result, np.full_like(A, expected))
    assert not [str(one.message) for one in caught if "NKI-FE" in str(one.message)]


@pytest.mark.usefixtures("nki_0_6")
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_an_older_release_refuses_it(name: str, tmp_path: Path) -> None:
    body, codes, _ = CONSTRUCTS[name]
    with pytest.raises(NkiError) as caught:
        kernel_of(body, tmp_path / "kernel.py")(A)
    assert {code for code in codes if f"NKI-{code}" in str(caught.value)}


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [("*xs", (A, A)), ("x, *xs", (A, A)), ("x, /, *xs", (A, A)), ("x, **more", (A,)), ("x, *, n=1", (A,))],
)
def test_parameters_of_a_kernel(parameters: str, arguments: tuple[Any, ...], tmp_path: Path) -> None:
    first = "xs[0]" if parameters == "*xs" else "x"
    kernel = kernel_of(f"return put({first}, 2)", tmp_path / "kernel.py", parameters)
    result, caught = told(kernel, *arguments)
    np.testing.assert_array_equal(result, A + 2)
    assert ["NKI-FE023" in str(one.message) for one in caught] == [True]
    np.testing.assert_array_equal(told(nki.simulate(kernel), *arguments)[0], A + 2)


def test_keywords_that_a_kernel_does_not_name(tmp_path: Path) -> None:
    kernel = kernel_of("return put(more['y'], more['n'])", tmp_path / "kernel.py", "x, **more")
    result, _ = told(lambda: kernel(A, y=A + 1, n=3))
    np.testing.assert_array_equal(result, A + 4)


@pytest.mark.parametrize("version", ["", "0.6", "0.7"])
@pytest.mark.parametrize(("body", "code"), [("yield put(x)", "FE010"), ("async def f():\n    pass", "FE011")])
def test_no_release_takes_it(
    body: str, code: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NKI_VERSION", version)
    with pytest.raises(NkiError, match=f"NKI-{code}"):
        kernel_of(body, tmp_path / "kernel.py")(A)


def test_what_is_not_reached_is_not_warned_of(tmp_path: Path) -> None:
    body = "if x.shape[0] > 4:\n    raise ValueError(x.shape)\nreturn put(x, 1)"
    result, caught = told(kernel_of(body, tmp_path / "kernel.py"), A)
    np.testing.assert_array_equal(result, A + 1)
    assert caught == []


@pytest.mark.parametrize(
    ("version", "frontend", "name"),
    [
        ("", "", "nki"), ("0.6", "", "nki 0.6"), ("0.2", "", "nki 0.2"), ("0.7", "", "nki 0.7"),
        ("0.7.0", "", "nki 0.7"),
        ("", "parser", "nki 0.6"), ("", "custom", "nki 0.6"), ("", "tracer", "nki 0.7"), ("0.7", "parser", "nki 0.7"),
    ],
)  # fmt: skip
def test_the_environment_chooses(version: str, frontend: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_VERSION", version)
    monkeypatch.setenv("NKI_COMPILER_FRONTEND", frontend)
    assert default_dialect().name == name


@pytest.mark.parametrize(("variable", "fix"), [("NKI_VERSION", "0.6, 0.7"), ("NKI_COMPILER_FRONTEND", "parser")])
def test_an_unknown_release_is_an_error(variable: str, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1.5")
    with pytest.raises(ReleaseError, match=f"{variable}='1.5' names no release") as caught:
        default_dialect()
    assert fix in caught.value.fix


def test_a_kernel_is_compiled_anew_for_another_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_of("n = {1, 2}\nreturn put(x, len(n))", tmp_path / "kernel.py")
    told(kernel, A)
    monkeypatch.setenv("NKI_VERSION", "0.6")
    with pytest.raises(NkiError, match="NKI-FE021"):
        kernel(A)


LOOPS = {
    "for i in nl.dynamic_range(2):\n    nisa.tensor_copy(t, t)": RemovedApiError,
    "r = nisa.register_alloc(2)\nwhile r:\n    nisa.register_move(r, 0)": RegisterUseError,
    "r = nisa.register_alloc(2)\nif r:\n    pass": RegisterUseError,
    "n = int(nisa.register_alloc(2))": RegisterUseError,
    "n = range(nisa.register_alloc(2))": RegisterUseError,
}


@pytest.mark.usefixtures("nki_0_7")
@pytest.mark.parametrize("body", LOOPS)
def test_registers_are_no_numbers_and_their_old_loops_are_gone(body: str, tmp_path: Path) -> None:
    kernel = kernel_of(f"t = nl.load(x)\n{body}\nreturn put(x)", tmp_path / "kernel.py")
    for run in (kernel, nki.simulate(kernel)):
        with pytest.raises(LOOPS[body]) as caught:
            run(A)
        assert isinstance(caught.value, TypeError) is (LOOPS[body] is RegisterUseError)
        assert caught.value.span is not None and caught.value.fix


def test_check_takes_a_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel_of("n = {1, 2}\nreturn put(x, len(n))", tmp_path / "kernel.py")
    file = str(tmp_path / "kernel.py")
    assert main(["check", "--nki", "0.6", file]) == 1
    assert "[NKI-FE021] NKI has no sets" in capsys.readouterr().out
    assert main(["check", "--nki", "0.7", file]) == 0
    assert "NKI-FE021" not in capsys.readouterr().out
    assert main(["check", file]) == 0
    assert "[NkiPortabilityWarning] [NKI-FE021]" in capsys.readouterr().out
    assert main(["check", "--nki", "9", file]) == 2
