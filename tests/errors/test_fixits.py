"""Each row of the tables of fix-its: its mistake gets its fix, and the code of the fix is free of that mistake."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nki.base.errors import NkiError
from nki.frontend.site import Site
from nki.language import advice
from nki.language.advice import call_fixits
from nki.language.advice.call import Call
from nki.language.advice.fixit import FixIt
from nki.language.advice.operand_fixits import OPERANDS
from tests.errors.test_advice import imported, refused, repaired

pytestmark = [
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::nki.base.warning.NkiWarning"),
]

KERNEL = """\
import numpy as np
import nki
import nki.isa as nisa
import nki.language as nl
import torch

ARRAY = np.ones((8, 8), np.float32)
TORCH = torch.ones((8, 8))


@nki.jit
def kernel(x):
    out = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    line = nl.ndarray((1, 512), dtype=nl.float32, buffer=nl.hbm)
    a = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
    t = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
    plain = nl.ndarray((8, 8), dtype=nl.float32)
    half = nl.ndarray((8, 8), dtype=nl.bfloat16, buffer=nl.sbuf)
    whole = nl.ndarray((8, 8), dtype=nl.int32, buffer=nl.sbuf)
    column = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
    half_column = nl.ndarray((8, 1), dtype=nl.bfloat16, buffer=nl.sbuf)
    row = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
    one = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    long = nl.ndarray((8, 16), dtype=nl.float32, buffer=nl.sbuf)
    tall = nl.ndarray((16, 8), dtype=nl.float32, buffer=nl.sbuf)
    wide = nl.ndarray((8, 256), dtype=nl.float32, buffer=nl.sbuf)
    large = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    other_large = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    index = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
    bank = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
    other_bank = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
    half_bank = nl.ndarray((8, 8), dtype=nl.bfloat16, buffer=nl.psum)
    whole_bank = nl.ndarray((8, 8), dtype=nl.int32, buffer=nl.psum)
    wide_bank = nl.ndarray((8, 256), dtype=nl.float32, buffer=nl.psum)
"""
ONES = np.ones((8, 8), np.float32)
ROWS = [(row.rule, row) for row in call_fixits.ROWS] + [("operand", row) for row in OPERANDS]


@pytest.mark.parametrize(("key", "row"), ROWS, ids=[f"{key}: {row.mistake}" for key, row in ROWS])
def test_row(key: str, row: FixIt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is answered by this row and no other; with its code the kernel has another error, or none."""
    used: list[FixIt] = []
    plain = FixIt.fix

    def recorded(self: FixIt, call: Call) -> str | None:
        fix = plain(self, call)
        used.extend([self] if fix is not None else [])
        return fix

    monkeypatch.setattr(FixIt, "fix", recorded)
    text = f"{KERNEL}    {row.mistake}\n    return out\n"
    error = refused(text, tmp_path / "mistake.py", (ONES,), simulate=False)
    assert used == [row], f"{error}: answered by {[each.mistake for each in used]}"
    assert key in ("operand", error.rule, type(error).__name__)
    if "{write}" not in row.text:
        return
    assert re.search(r"`[^`]+`", error.fix), error.fix
    after: Any = None
    try:
        imported(repaired(text, error), tmp_path / "repaired.py").kernel(ONES)
    except NkiError as other:
        after = other
    assert after is None or after.rule != error.rule or type(after) is not type(error), textwrap.dedent(str(after))


@pytest.mark.parametrize("answer", advice.ANSWERS, ids=[answer.mistake for answer in advice.ANSWERS])
def test_answer(answer: advice.Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake is answered by this row, and by none before it."""
    answered: list[str] = []

    def recorded(row: advice.Answer) -> advice.Answer:
        def advise(exc: Exception, site: Site) -> NkiError | None:
            error = row.advise(exc, site)
            answered.extend([row.mistake] if error is not None else [])
            return error

        return advice.Answer(row.mistake, row.on, advise)

    monkeypatch.setattr(advice, "ANSWERS", tuple(map(recorded, advice.ANSWERS)))
    lines = textwrap.indent(answer.mistake, "    ")
    error = refused(f"{KERNEL}{lines}\n    return out\n", tmp_path / "mistake.py", (ONES,), simulate=False)
    assert answered == [answer.mistake], error
    assert error.fix
