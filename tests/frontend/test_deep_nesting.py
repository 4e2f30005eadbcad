"""Python that is nested deeper than the frontend can follow: an error at its line, whatever gives up first."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import nki
from nki.frontend.frontend_errors import SyntaxNotInNkiError

Load = Callable[[str], types.ModuleType]
HEAD = """import nki.isa as nisa
import nki.language as nl

def kernel(a):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, a)
    n = 5
    y = [1]
"""
TAIL = "    return out\n"


def chain(length: int) -> str:
    """A chain of ``elif``."""
    return "    if n == 0:\n        x = 0\n" + "".join(
        f"    elif n == {i}:\n        x = {i}\n" for i in range(1, length)
    )


@pytest.fixture(autouse=True)
def usual_limit() -> Iterator[None]:
    """Python's own limit, which test tools raise."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "text",
    [chain(500), chain(2000), f"    x = y{'[0]' * 900}\n", f"    x = {' + '.join(['n'] * 900)}\n"],
    ids=["elif", "more elif", "subscripts", "sums"],
)
def test_too_deep(text: str, load: Load) -> None:
    module = load(HEAD + text + TAIL)
    with pytest.raises(SyntaxNotInNkiError, match="levels deep") as caught:
        nki.jit(module.kernel)(np.zeros((4, 4), np.float32))
    assert caught.value.span is not None and caught.value.span.line == 9


def test_long_chains_and_deep_neighbours_do_no_harm(load: Load) -> None:
    other = "\ndef other(n, y):\n" + chain(2000) + "    return x\n"
    module = load(HEAD + chain(150) + TAIL + other)
    assert nki.jit(module.kernel)(np.ones((4, 4), np.float32)).all()
