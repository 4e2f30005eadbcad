"""The line on the terminal during a long compilation."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base import progress
from tests.support.kernel_parts import returned


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@nki.jit
def steps(x, n):
    """``x`` (128, 4) plus n, one by one."""
    tile = nl.load(x)
    for _ in range(n):
        nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    return returned(tile)


def lines_of(stream: io.StringIO, n: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(sys, "stderr", stream)
    steps.compile(np.zeros((128, 4), np.float32), n)
    return stream.getvalue().split("\r\x1b[K")


def test_stages_and_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    lines = lines_of(Terminal(), 2 * progress.RECORDED_AT_ONCE, monkeypatch)
    assert "compiling steps: specialise, 4,096 instructions so far" in lines
    shares = [int(line.split("about ")[1].split(" %")[0]) for line in lines if "about " in line]
    assert shares == sorted(shares, reverse=True)
    assert any(line.startswith("compiling steps: native code, about ") for line in lines)
    assert lines[-1] == ""  # it is taken away in the end


def test_short_compilations_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 3600.0)
    assert lines_of(Terminal(), 3, monkeypatch) == [""]


def test_nothing_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    assert lines_of(io.StringIO(), 2 * progress.RECORDED_AT_ONCE, monkeypatch) == [""]
