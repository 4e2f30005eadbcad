"""Values of tiles: where a tile is filled again although nothing of it is read any more."""

from __future__ import annotations

from typing import Any

import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.analysis.tile_values import filled_again

V = nisa.engine.vector


def parts(form: str) -> list[int]:
    """The number of uses of each value of the tile of :func:`rounds`."""
    program = nki.profile(nki.jit(rounds), target="trn2")(nki.ShapeDtype((512, 256), "float32"), form).program
    found = filled_again(program.core)
    return [len(part) for tensor, values in found.items() if tensor.name == "tile" for part in values]


def rounds(x, form):
    """Four blocks of ``x`` go through one tile."""
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    if form == "before":
        nisa.memset(dst=tile, value=0.0, engine=V)

    def visit(rows):
        if form == "halves":
            nisa.dma_copy(dst=tile[:, :128], src=x[rows, :128])
            nisa.dma_copy(dst=tile[:, 128:], src=x[rows, 128:])
        elif form in ("part", "before"):
            nisa.dma_copy(dst=tile[:64], src=x[rows][:64])
        elif form == "adds":
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, engine=V)
        else:
            nisa.dma_copy(dst=tile, src=x[rows])
        nisa.dma_copy(dst=y[rows], src=tile)

    if form == "adds":
        nisa.dma_copy(dst=tile, src=x[0:128])
    if form == "loop":

        def body(i):
            for part in range(2):
                visit(nl.ds(i * 256 + part * 128, 128))

        nl.fori_loop(0, 2, body)
    else:
        for first in range(0, 512, 128):
            visit(slice(first, first + 128))
    return y


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("whole", [2, 2, 2, 2]),
        ("halves", [3, 3, 3, 3]),
        ("before", []),  # the other rows are those from the beginning
        ("adds", []),
        ("loop", [2, 2]),
    ],
)
def test_a_tile_that_is_filled_again_holds_another_value(form: str, expected: Any) -> None:
    assert parts(form) == expected
