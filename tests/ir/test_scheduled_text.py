"""Texts of scheduled programs: values that are looked up by their text change neither programs nor errors."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import Any

import numpy as np
import pytest

from benchmarks.compiling import tiled
from nki import target as targets
from nki.base.errors import TextError
from nki.compilation import pipeline
from nki.ir.program import Program
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.jit import adapter_for
from tests.support.instruction_bench import SEED
from tests.support.mutated_programs import mutated, seeds, source_of

COUNT = 20 * int(os.environ.get("NKI_TEST_EXAMPLES", "50"))


@pytest.fixture(scope="module")
def scheduled() -> str:
    """A product in tiles on its queues, with the waits of ``sync`` and source lines."""
    operands = np.zeros((256, 256), np.float32), np.zeros((256, 1024), np.float32)
    specs = tiled.specs(tiled.bind(operands, {}), adapter_for(operands, {}))
    return show(pipeline.compile(tiled.func, specs, targets.find("trn2")))


@pytest.fixture(scope="module")
def texts(scheduled: str) -> list[str]:
    return [*seeds(), scheduled]


def _facts(program: Program) -> list[Any]:
    """All that equality of programs leaves out: source lines, dtypes and forms."""
    return [
        (
            inst.where.span,
            inst.form.signature,
            list(inst.__dict__.get("waits", ())),
            [(a.dtype.name, a.form.signature) for a in inst.accesses()],
        )
        for core in program.cores
        for inst in core.numbered
    ]


def _read_twice(text: str) -> None:
    """Read a text, and what the printer makes of it: the same program, of the same facts."""
    program = parse(text)
    again = parse(show(program))
    assert program == again
    assert _facts(program) == _facts(again)


def test_programs_are_read_as_they_are_written(texts: list[str]) -> None:
    for text in texts:
        _read_twice(text)
        assert show(parse(text)) == text


def test_changed_programs_are_read_as_they_are_written(texts: list[str]) -> None:
    read = Counter[bool]()
    for number in range(COUNT):
        source = source_of(f"{SEED}/usual", number)
        text = mutated(source.choice(texts), source)
        with contextlib.suppress(TextError):
            _read_twice(text)
            read[True] += 1
            continue
        read[False] += 1
    assert min(read[True], read[False]) > COUNT // 20


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (" on tensor", " on tensor on tensor", "unknown argument of nc_matmul"),
        (" on tensor", "  on tensor", ""),
        (" on tensor", " on Tensor", "unknown argument of nc_matmul"),
        (" on tensor", " wait tensor>=1", "unknown argument of nc_matmul"),
        (" on tensor", " on tensor wait vector>=1234567890", "unknown argument of nc_matmul"),
        (" on tensor", " on tensor wait vector>1", "unknown argument of nc_matmul"),
        (" on tensor", " label a after a on tensor", ""),
        (" moving=", " stationary=", "stationary is given twice"),
        (" moving=", " moving=1 moving=", "moving is given twice"),
        (" moving=", " self=", "unknown argument of nc_matmul"),
        (" moving=", " is_moving=1 moving=", "unknown argument of nc_matmul"),
        (" moving=", " tile_size=(128, 128) moving=", ""),
        (")\n  tensor ", "]\n  tensor ", "not a tensor declaration"),
        (")\n  tensor ", "\n  tensor ", "not a tensor declaration"),
        ("place=(0, ", "place=(-1, ", "not a tensor declaration"),
        ("place=(0, ", "place=(0,", "not a tensor declaration"),
        ("place=(0, ", "place=(00000000000000000000, ", ""),
        ("place=(0, ", "place=(٣, ", ""),
        ("[0 | ", "[-0 | ", ""),
        ("[0 | ", "[0000000000000000000000 | ", "a number has too many digits"),
        ("[0 | ", "[0_0 | ", "unknown word"),
        ("[0 | ", "[² | ", "unknown word"),
        ("tensor left", "tensor  left", "not a tensor declaration"),
        ("tensor left.1 ", "tensor left ", "tensor left is declared twice"),
    ],
)
@pytest.mark.parametrize("where", ["first", "last", "everywhere"])
def test_a_changed_line_among_many_like_it(scheduled: str, old: str, new: str, why: str, where: str) -> None:
    parts = {"first": scheduled.split(old, 1), "last": scheduled.rsplit(old, 1), "everywhere": scheduled.split(old)}
    assert len(parts[where]) > 1
    text = new.join(parts[where])
    if not why:
        _read_twice(text)
        return
    line = scheduled.count("\n", 0, len(parts[where][0])) + 1
    with pytest.raises(TextError, match=rf"line {line}: .*{why}"):
        parse(text)
