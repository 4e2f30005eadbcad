"""The quick reader of usual lines and the parser of all lines agree: about programs, source lines, forms and errors."""

from __future__ import annotations

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
from nki.ir.text.usual_lines import UsualLines
from nki.jit import adapter_for
from tests.support.instruction_bench import SEED
from tests.support.mutated_programs import mutated, seeds, source_of

COUNT = 20 * int(os.environ.get("NKI_TEST_EXAMPLES", "50"))
ORIGINS = ("", "edited.nki")


@pytest.fixture(scope="module")
def scheduled() -> str:
    """A product in tiles on its queues, with the waits of ``sync`` and source lines."""
    operands = np.zeros((256, 256), np.float32), np.zeros((256, 1024), np.float32)
    specs = tiled.specs(tiled.bind(operands, {}), adapter_for(operands, {}))
    return show(pipeline.compile(tiled.func, specs, targets.find("trn2")))


@pytest.fixture(scope="module")
def texts(scheduled: str) -> list[str]:
    return [*seeds(), scheduled]


def _read(text: str, origin: str) -> tuple[Program | None, str]:
    """The program, or else the words of the error."""
    try:
        return parse(text, origin), ""
    except TextError as error:
        return None, f"{error} {error.span}"


def _facts(program: Program) -> list[Any]:
    """All that equality of programs leaves out: source lines, dtypes, forms, and which accesses are one object."""
    numbers: dict[int, int] = {}
    return [
        (
            inst.where.span,
            inst.form().signature,
            list(inst.__dict__.get("waits", ())),
            [(numbers.setdefault(id(a), len(numbers)), a.dtype.name, a.form.signature) for a in inst.accesses()],
        )
        for core in program.cores
        for inst in core.numbered
    ]


def _slowly(text: str, origin: str) -> tuple[Program | None, str]:
    """:func:`_read` by the parser of all lines alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UsualLines, "usual_instruction", lambda self, line: None)
        patch.setattr(UsualLines, "usual_tensor", lambda self, line: False)
        return _read(text, origin)


def _compare(text: str) -> str:
    """Read a text in both ways; the words of its error."""
    for origin in ORIGINS:
        (one, error), (other, other_error) = _read(text, origin), _slowly(text, origin)
        assert error == other_error
        if one is not None and other is not None:
            assert one == other
            spans, other_spans = ([t.span for core in p.cores for t in core.tensors] for p in (one, other))
            assert spans == other_spans
            assert _facts(one) == _facts(other)
    return error


def test_both_ways_read_the_same_programs(texts: list[str]) -> None:
    for text in texts:
        assert _compare(text) == ""


def test_both_ways_read_the_same_of_changed_programs(texts: list[str]) -> None:
    errors = Counter[bool]()
    for number in range(COUNT):
        source = source_of(f"{SEED}/usual", number)
        errors[_compare(mutated(source.choice(texts), source)) == ""] += 1
    assert min(errors[True], errors[False]) > COUNT // 20


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" on tensor", " on tensor on tensor"),
        (" on tensor", "  on tensor"),
        (" on tensor", " on Tensor"),
        (" on tensor", " wait tensor>=1"),
        (" on tensor", " on tensor wait vector>=1234567890"),
        (" on tensor", " on tensor wait vector>1"),
        (" on tensor", " label a after a on tensor"),
        (" moving=", " stationary="),
        (" moving=", " moving=1 moving="),
        (" moving=", " self="),
        (" moving=", " is_moving=1 moving="),
        (" moving=", " tile_size=(128, 128) moving="),
        (")\n  tensor ", "]\n  tensor "),
        (")\n  tensor ", "\n  tensor "),
        ("place=(0, ", "place=(-1, "),
        ("place=(0, ", "place=(0,"),
        ("place=(0, ", "place=(00000000000000000000, "),
        ("place=(0, ", "place=(٣, "),
        ("[0 | ", "[-0 | "),
        ("[0 | ", "[0000000000000000000000 | "),
        ("[0 | ", "[0_0 | "),
        ("[0 | ", "[² | "),
        ("tensor left", "tensor  left"),
        ("tensor left.1 ", "tensor left "),
    ],
)
def test_lines_that_are_hardly_usual(scheduled: str, old: str, new: str) -> None:
    assert old in scheduled
    _compare(new.join(scheduled.split(old, 2)))
    _compare(new.join(scheduled.rsplit(old, 1)))
    _compare(scheduled.replace(old, new))


def test_most_lines_are_usual(scheduled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[bool]()
    usual = UsualLines.usual_instruction

    def counted(self: UsualLines, line: str) -> Any:
        inst = usual(self, line)
        read[inst is not None] += 1
        return inst

    monkeypatch.setattr(UsualLines, "usual_instruction", counted)
    parse(scheduled)
    assert read[True] > 0.8 * read.total()
