"""Ways out of the body of a loop on the device: each is an error at its line, or has a meaning, under every release."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nki
from nki.base.errors import NkiError
from tests.frontend.test_releases import HEADER, A, kernel_of, told

DYNAMIC = "for i in nl.dynamic_range(2):\n    nisa.tensor_scalar(t, t, nl.add, 1.0)\n"
REGISTER = "r = nisa.register_alloc(2)\nwhile r:\n    nisa.register_move(r, 0)\n"
BODY = "def body(i):\n    nisa.tensor_scalar(t, t, nl.add, 1.0)\n"
FORI = "nl.fori_loop(0, 2, body)\n"
GONE, EARLY, PYTHON, REGISTER_USE = "NKI-FE032", "NKI-RG003", "NKI-FE041", "NKI-RG001"

# What follows the first line of the kernel, and per release (the default, 0.6, 0.7) the error and its line, or what the
# kernel adds to its input.
CASES: dict[str, tuple[str, tuple[Any, Any, Any]]] = {
    "break": (f"{DYNAMIC}    break", ((EARLY, 3), (EARLY, 3), (GONE, 1))),
    "break behind if": (
        f"{DYNAMIC}    if x.shape[0] > 2:\n        break",
        ((EARLY, 4), (EARLY, 4), (GONE, 1)),
    ),
    "continue": (f"{DYNAMIC}    continue", (2, 2, (GONE, 1))),
    "return": (f"{DYNAMIC}    return put(x)", ((EARLY, 3), (EARLY, 3), (GONE, 1))),
    "raise": (f"{DYNAMIC}    raise ValueError(3)", ((PYTHON, 3), ("NKI-FE014", 3), (GONE, 1))),
    "an exception of Python": (f"{DYNAMIC}    VALUES[7]", ((PYTHON, 3), (PYTHON, 3), (GONE, 1))),
    "else": (f"{DYNAMIC}else:\n    nisa.tensor_scalar(t, t, nl.add, 5.0)", (7, 7, (GONE, 1))),
    "caught outside": (
        "try:\n    for i in nl.dynamic_range(2):\n        raise ValueError(3)\nexcept ValueError:\n    pass",
        ((EARLY, 3), ("NKI-FE013", 1), (GONE, 2)),
    ),
    "caught inside": (
        f"{DYNAMIC}    try:\n        raise ValueError(3)\n    except ValueError:\n"
        "        nisa.tensor_scalar(t, t, nl.add, 2.0)",
        (6, ("NKI-FE013", 3), (GONE, 1)),
    ),
    "suppressed": (
        "with contextlib.suppress(ValueError):\n    for i in nl.dynamic_range(2):\n        raise ValueError(3)",
        ((EARLY, 3), ("NKI-FE012", 1), (GONE, 2)),
    ),
    "break of a generator": (
        "def rounds():\n    for i in nl.dynamic_range(2):\n        yield i\n"
        "for i in rounds():\n    nisa.tensor_scalar(t, t, nl.add, 1.0)\n    break",
        ((EARLY, None), ("NKI-FE010", 3), (GONE, 2)),
    ),
    "break of while register": (f"{REGISTER}    break", ((EARLY, 4), (EARLY, 4), (REGISTER_USE, 2))),
    "return of while register": (f"{REGISTER}    return put(x)", ((EARLY, 4), (EARLY, 4), (REGISTER_USE, 2))),
    "raise of while register": (
        f"{REGISTER}    raise ValueError(3)",
        ((PYTHON, 4), ("NKI-FE014", 4), (REGISTER_USE, 2)),
    ),
    "early return of a body": (
        f"def body(i):\n    nisa.tensor_scalar(t, t, nl.add, 1.0)\n    if x.shape[0] > 2:\n        return\n"
        f"    nisa.tensor_scalar(t, t, nl.add, 5.0)\n{FORI}",
        (2, 2, 2),
    ),
    "a value of a body": (f"{BODY}    return 3\n{FORI}", ((EARLY, 4),) * 3),
    "raise of a body": (f"{BODY}    raise ValueError(3)\n{FORI}", ((PYTHON, 3), ("NKI-FE014", 3), (PYTHON, 3))),
    "an exception of a body": (f"{BODY}    VALUES[7]\n{FORI}", ((PYTHON, 3),) * 3),
    "caught outside of a body": (
        f"{BODY}    VALUES[7]\ntry:\n    {FORI}except IndexError:\n    pass",
        ((EARLY, 3), ("NKI-FE013", 4), (EARLY, 3)),
    ),
    "suppressed outside of a body": (
        f"{BODY}    VALUES[7]\nwith contextlib.suppress(IndexError):\n    {FORI}",
        ((EARLY, 3), ("NKI-FE012", 4), (EARLY, 3)),
    ),
    "caught inside of a body": (
        f"{BODY}    try:\n        VALUES[7]\n    except IndexError:\n"
        f"        nisa.tensor_scalar(t, t, nl.add, 2.0)\n{FORI}",
        (6, ("NKI-FE013", 3), 6),
    ),
    "StopIteration of a body": (f"{BODY}    next(iter(()))\n{FORI}", ((PYTHON, 3),) * 3),
    "a body that yields": (f"{BODY}    yield 3\n{FORI}", ((EARLY, 4), ("NKI-FE010", 3), (EARLY, 4))),
    "break around a loop": (
        f"{BODY}for k in range(3):\n    {FORI}    break",
        (2, 2, 2),
    ),
    "a while body without its register": (
        f"{BODY}nl.while_loop(nisa.register_alloc(1), body)",
        ((EARLY, 3),) * 3,
    ),
    "raise of a while body": (
        "def body(r):\n    VALUES[7]\n    return r\nnl.while_loop(nisa.register_alloc(1), body)",
        ((PYTHON, 2),) * 3,
    ),
    "caught outside of a while body": (
        "def body(r):\n    VALUES[7]\n"
        "try:\n    nl.while_loop(nisa.register_alloc(1), body)\nexcept IndexError:\n    pass",
        ((EARLY, 2), ("NKI-FE013", 3), (EARLY, 2)),
    ),
}
FIRST = HEADER.count("\n") + 4
"""The line behind the kernel's first."""


@pytest.mark.parametrize("release", ["", "0.6", "0.7"])
@pytest.mark.parametrize("eager", [False, True], ids=["native", "eager"])
@pytest.mark.parametrize("name", CASES)
def test_ways_out(name: str, eager: bool, release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NKI_VERSION", release)
    body, expectations = CASES[name]
    expected = expectations[["", "0.6", "0.7"].index(release)]
    text = f"t = nl.load(x)\n{body.rstrip()}\nout = put(x)\nnisa.dma_copy(out, t)\nreturn out"
    kernel = kernel_of(text, tmp_path / "kernel.py")
    run = nki.simulate(kernel) if eager else kernel
    if isinstance(expected, int):
        np.testing.assert_array_equal(told(run, A)[0], A + expected)
        return
    code, line = expected
    with pytest.raises(NkiError) as caught:
        told(run, A)
    error = caught.value
    assert error.code == code, error
    assert error.span is not None
    assert line is None or error.span.line == FIRST + line - 1, error
    assert error.fix or code == PYTHON


def test_what_left_the_body_is_named(tmp_path: Path) -> None:
    body = f"t = nl.load(x)\n{CASES['caught outside of a body'][0]}\nreturn put(x)"
    with pytest.raises(NkiError, match="IndexError: tuple index out of range leaves the body of the run-time loop"):
        told(kernel_of(body, tmp_path / "kernel.py"), A)
    body = f"t = nl.load(x)\n{CASES['a body that yields'][0]}\nreturn put(x)"
    with pytest.raises(NkiError, match="has a `yield`, so its call makes a generator"):
        told(kernel_of(body, tmp_path / "kernel.py"), A)
