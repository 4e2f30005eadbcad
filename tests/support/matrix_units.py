"""Each matrix unit that the processor has, whether or not it pays: with what native code multiplies narrow operands.

Without a unit they are converted, and multiplied as float32. Where nothing else is said, tests use pairs wherever the
processor has them (``tests/conftest.py``): a timing at start decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nki.numerics.llvm_jit import engine
from nki.numerics.matmul import host
from nki.numerics.matmul.units import AMX, BF16_PAIRS, MatrixUnit
from tests.support.compiled_anew import anew

UNITS: dict[str, MatrixUnit | None] = {"float32": None, "pairs": BF16_PAIRS, "tiles": AMX}


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
    patch.setattr(host, "pays", lambda each: each is UNITS[unit])
    host.bf16_unit.cache_clear()
    anew(patch)


@pytest.fixture(params=UNITS)
def unit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each matrix unit in turn."""
    choose(monkeypatch, request.param)
    assert host.bf16_unit() is UNITS[request.param]
    yield request.param
    monkeypatch.undo()
    host.bf16_unit.cache_clear()
