"""Loops in kernels that come as text: what the frontend never writes is refused, not run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nki import target
from nki.base.errors import NkiError, StructureError, TextError
from nki.compilation import pipeline
from nki.ir.loop import For, with_numbers
from nki.ir.text.parser import parse

TEXT = """
kernel "k" target=trn3 grid=() version="1" {
  output out : shared_hbm int32[1,1]
  tensor i : register int32[1,1]
  tensor n : register int32[1,1]
  tensor tile : sbuf int32[1,1]
  register_move dst=n[0 | 1x1, 1x1] src=3
  for i = 0 to n step 1 {
    tensor own : sbuf int32[1,1]
    register_store dst=own[0 | 1x1, 1x1] src=i[0 | 1x1, 1x1]
    tensor_copy dst=tile[0 | 1x1, 1x1] src=own[0 | 1x1, 1x1]
  }
  dma_copy dst=out[0 | 1x1, 1x1] src=tile[0 | 1x1, 1x1]
  return out
}
"""


def accepted(text: str) -> None:
    pipeline.compile(None, {}, target.GEN4, start=parse(text))


def test_the_kernel_is_accepted() -> None:
    accepted(TEXT)
    accepted(TEXT.replace("0 to n step 1", "-2147483648 to 2147483647 step 7"))


@pytest.mark.parametrize(
    ("old", "new", "error", "why"),
    [
        ("0 to n", "0 to 2147483648", StructureError, "no register holds"),
        ("0 to n", "-2147483649 to n", StructureError, "no register holds"),
        ("step 1", "step 0", StructureError, "has step 0"),
        ("0 to n", "0 to tile", StructureError, "'tile' controls a loop and is no register"),
        ("for i =", "for tile =", StructureError, "'tile' controls a loop and is no register"),
        ("for i = 0 to n step 1", "while tile", StructureError, "'tile' controls a loop and is no register"),
        ("    tensor_copy", "    register_move dst=i[0 | 1x1, 1x1] src=3\n    tensor_copy", StructureError, "its own"),
        ("src=tile[0 | 1x1, 1x1]\n  return", "src=own[0 | 1x1, 1x1]\n  return", TextError, "unknown tensor own"),
    ],
)
def test_what_is_refused(old: str, new: str, error: type[NkiError], why: str) -> None:
    assert old in TEXT
    with pytest.raises(error, match=why):
        accepted(TEXT.replace(old, new))


def test_dense_numbers_of_statements_are_those_of_their_first_instructions() -> None:
    core = parse(TEXT).core
    (_, loop, _) = core.body
    assert isinstance(loop, For)
    assert [number for number, _ in with_numbers(core.body)] == [0, 1, 3]
    assert [core.numbered[number] is inst for number, inst in with_numbers(loop.body, 1)] == [True, True]
    empty = replace(loop, body=())
    assert [number for number, _ in with_numbers((core.body[0], empty, loop, empty))] == [0, 1, 1, 3]
