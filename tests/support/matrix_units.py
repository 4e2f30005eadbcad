"""Each matrix unit that the processor has, whether or not it pays: with what native code multiplies narrow operands.

Without a unit they are converted, and multiplied as float32. Where nothing else is said, tests use pairs wherever the
processor has them (``tests/conftest.py``): a timing at start decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nki.numerics import matmul_entry
from nki.numerics.jit import engine
from tests.support.compiled_anew import anew

UNITS = ("float32", "pairs", "tiles")


def missing(unit: str) -> str:
    """The instruction that the processor lacks for ``unit``; "" if it has all."""
    if unit == "pairs" and not engine().has_bfloat16:
        return "AVX512-BF16"
    return "AMX-BF16" if unit == "tiles" and not engine().has_tiles else ""


def require(unit: str) -> None:
    """Skip the test on a processor without ``unit``."""
    if lacks := missing(unit):
        pytest.skip(f"the processor has no {lacks}")


def choose(patch: pytest.MonkeyPatch, unit: str) -> None:
    """Multiply in ``unit`` until ``patch`` is undone, and compile routines anew."""
    require(unit)
    if unit != "tiles":
        patch.setattr(matmul_entry, "amx_routines", lambda: None)
        patch.setattr(matmul_entry, "pairs_pay", lambda: unit == "pairs")
    matmul_entry.word_routines.cache_clear()
    anew(patch)


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each matrix unit in turn."""
    choose(monkeypatch, request.param)
    assert (matmul_entry.word_routines() is None) == (request.param == "float32")
    yield request.param
    monkeypatch.undo()
    matmul_entry.word_routines.cache_clear()
