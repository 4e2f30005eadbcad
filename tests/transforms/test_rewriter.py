"""The check that rewriting stages share, and where the elements of a tile are that is in parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target as targets
from nki.base.element_types import float32
from nki.ir.program import CoreProgram, Program
from nki.ir.types import Access, Buffer, Tensor
from nki.ir.windows import in_parts, in_window
from nki.target.model import Target
from nki.transforms.rewriter import Rewriter, RewritingStage


class Careless(RewritingStage):
    """A stage that leaves out the instructions of one name."""

    name: ClassVar[str] = "careless"
    lost: ClassVar[str] = ""

    def transform(self, core: CoreProgram, program: Program, target: Target) -> CoreProgram:
        rewriter = Rewriter(core.body)
        for position in range(len(core.body)):
            if rewriter.inst(position).mnemonic == self.lost:
                rewriter.put(position, None)
        return core.with_body(rewriter.statements())


def squares(x: Any) -> Any:
    result = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(tile, nl.square, nl.load(x))
    nisa.dma_copy(result, tile)
    return result


@pytest.mark.parametrize("lost", ["activation", "dma_copy", ""])
def test_what_is_read_or_returned_must_be_written(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_CHECK_STAGES", "1")
    monkeypatch.setattr(Careless, "lost", lost)
    program = nki.jit(squares).compile(np.zeros((8, 8), np.float32)).kernel
    target = targets.find(program.target)
    after = Careless().run(program, target)
    if not lost:
        Careless().check(program, after, target)
        return
    with pytest.raises(AssertionError, match=r"stage careless left .* unwritten"):
        Careless().check(program, after, target)


def elements(access: Access) -> np.ndarray[Any, Any]:
    """The numbers of the elements of ``access`` in its tensor."""
    places = np.indices(access.shape).reshape(len(access.shape), -1)
    return (access.offset + np.array(access.strides) @ places).reshape(access.shape)


ROWS, COLUMNS = 4, 12


@given(st.lists(st.integers(1, COLUMNS - 1), unique=True, max_size=3), st.data())
def test_elements_are_in_one_part_or_in_none(cuts: list[int], data: st.DataObject) -> None:
    tile, source = (Tensor(name, (ROWS, COLUMNS), float32, Buffer.sbuf) for name in ("tile", "source"))
    bounds = [0, *sorted(cuts), COLUMNS]
    sizes = list(pairwise(bounds))
    parts = [(first, Access(source, first, (ROWS, end - first), (COLUMNS, 1), float32)) for first, end in sizes]
    row, column = data.draw(st.integers(0, ROWS - 1)), data.draw(st.integers(0, COLUMNS - 1))
    shape = data.draw(st.integers(1, ROWS - row)), data.draw(st.integers(1, COLUMNS - column))
    access = Access(tile, row * COLUMNS + column, shape, (COLUMNS, 1), float32)
    found = in_parts(access, parts)
    is_in_one = any(first <= column and column + shape[1] <= end for first, end in sizes)
    assert (found is not None) == is_in_one
    if found is not None:
        np.testing.assert_array_equal(elements(found), elements(access))


@given(st.data())
def test_elements_of_a_tile_in_a_window(data: st.DataObject) -> None:
    """The tile has the elements of a window of a larger tensor; what is found are the same ones."""
    source = Tensor("source", (ROWS, 3 * COLUMNS), float32, Buffer.hbm)
    window = Access(source, 5, (ROWS, COLUMNS), (3 * COLUMNS, 2), float32)
    tile = Tensor("tile", (ROWS, COLUMNS), float32, Buffer.sbuf)
    row, column, step = (data.draw(st.integers(0, 3)) for _ in range(3))
    shape = data.draw(st.integers(1, ROWS - row)), data.draw(st.integers(1, 3))
    access = Access(tile, row * COLUMNS + column, shape, (COLUMNS, step), float32)
    place = in_window(access, window)
    assert place is not None
    offset, strides = place
    found = Access(source, window.offset + offset, shape, strides, float32)
    np.testing.assert_array_equal(elements(found), elements(window).reshape(-1)[elements(access)])
