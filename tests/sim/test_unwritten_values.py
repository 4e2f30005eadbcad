"""Reads of partly unwritten tiles, against runs of the program with other contents of fresh memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.numpy import executor as reference
from nki.backend.numpy.memory import Memory
from nki.base.errors import UnwrittenReadError
from nki.ir.program import Program
from nki.ir.types import Tensor

N = 8
A = (np.arange(N * N, dtype=np.float32).reshape(N, N) * 7 % 11) - 3
MASK = (np.arange(N * N).reshape(N, N) * 5 % 3 > 0).astype(np.uint8)
Window = tuple[int, int, int, int]
"""First row and number of rows, first column and number of columns."""
Step = tuple[str, int, int, int, Window]
"""Kind, the tiles that it writes and reads, and where."""


@nki.jit
def onto_itself(a, masks, how, rows):
    """Copies a tile with so many written rows to itself, where a mask is set."""
    mask = nl.load(masks)
    tile = nl.ndarray(a.shape, a.dtype)
    if rows:
        nisa.dma_copy(tile[0:rows], a[0:rows])
    if how == "predicated":
        nisa.tensor_copy_predicated(tile, tile, mask)
    elif how == "reversed":
        nisa.tensor_copy_predicated(tile, tile, mask, reverse_pred=True)
    elif how == "select":
        nisa.select_reduce(dst=tile, predicate=mask, on_true=tile, on_false=1.0)
    elif how == "affine":
        nisa.affine_select(tile, [[-1, N]], 1, tile, 1.0, cmp_op=nl.greater_equal)
    elif how == "sum":
        nisa.tensor_tensor(tile, tile, tile, nl.add)
    else:
        nisa.tensor_copy(tile, tile)
    out = nl.ndarray((rows or N, N), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile[0 : rows or N])
    return out


@pytest.mark.parametrize("how", ["predicated", "reversed", "select", "affine", "sum", "copy"])
def test_what_is_unwritten_stays_so_when_it_is_copied_to_itself(how: str) -> None:
    with pytest.raises(UnwrittenReadError, match="'tile'"):
        nki.simulate(onto_itself)(A, MASK, how, 0)
    wanted = {"select": np.where(MASK, A, 1), "affine": np.tril(A - 1) + 1, "sum": 2 * A}.get(how, A)
    assert np.array_equal(nki.simulate(onto_itself)(A, MASK, how, 5), wanted[0:5])


@nki.jit
def chosen(a, masks, rows, columns):
    """A predicated copy to a fresh tile, from a tile and under a predicate that are written in part."""
    source = nl.ndarray(a.shape, a.dtype)
    mask = nl.ndarray(a.shape, nl.uint8)
    tile = nl.ndarray(a.shape, a.dtype)
    nisa.dma_copy(source[0:rows], a[0:rows])
    nisa.dma_copy(mask[:, 0:columns], masks[:, 0:columns])
    nisa.tensor_copy_predicated(tile, source, mask)
    nisa.tensor_copy_predicated(tile, 1.0, mask, reverse_pred=True)
    out = nl.ndarray((4, 4), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile[0:4, 0:4])
    return out


def test_a_predicated_copy_of_what_is_unwritten_writes_nothing() -> None:
    wanted = np.where(MASK, A, 1)[0:4, 0:4]
    assert np.array_equal(nki.simulate(chosen)(A, MASK, N, N), wanted)
    assert np.array_equal(nki.simulate(chosen)(A, MASK, 4, 4), wanted)
    with pytest.raises(UnwrittenReadError, match=r"src 'source' .* partitions 2 to 7"):
        nki.simulate(chosen)(A, MASK, 2, 4)
    with pytest.raises(UnwrittenReadError, match=r"predicate 'mask' .* bytes 3 to 7"):
        nki.simulate(chosen)(A, MASK, 4, 3)


@nki.jit
def stepped(a, masks, parts, steps, result):
    tiles = [nl.ndarray(a.shape, a.dtype, name=f"tile{number}") for number in range(3)]
    mask = nl.load(masks)
    for tile, (top, rows, left, columns) in zip(tiles, parts, strict=True):
        nisa.dma_copy(tile[top : top + rows, left : left + columns], a[top : top + rows, left : left + columns])
    for what, into, one, two, (top, rows, left, columns) in steps:
        dst, first, second = tiles[into], tiles[one], tiles[two]
        if what == "load":
            nisa.dma_copy(dst[top : top + rows, left : left + columns], a[top : top + rows, left : left + columns])
        elif what == "turn":
            sums = nl.ndarray((N, N), nl.float32, buffer=nl.psum)
            nisa.nc_transpose(sums, first)
            nisa.tensor_copy(dst, sums)
        elif what == "product":
            sums = nl.ndarray((N, N), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(sums, first[0:rows], second[0:rows])
            nisa.tensor_copy(dst, sums)
        elif what == "select":
            nisa.select_reduce(dst=dst, predicate=mask, on_true=first, on_false=2.0)
        elif what == "predicated":
            nisa.tensor_copy_predicated(dst, first, mask)
        elif what == "greater":
            nisa.tensor_scalar(mask, first, nl.greater, 0.0)
        elif what == "add":
            nisa.tensor_tensor(dst, first, second, nl.add)
        elif what == "triangle":
            nisa.affine_select(dst, [[-1, N]], 1, first, 0.0)
        else:
            total = nl.ndarray((N, 1), a.dtype)
            nisa.tensor_reduce(total, nl.maximum, first[:, left : left + columns], axis=1)
            nisa.tensor_scalar(dst, second, nl.add, total)
    top, rows, left, columns = result
    out = nl.ndarray((rows, columns), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tiles[0][top : top + rows, left : left + columns])
    return out


def filled(byte: int) -> Callable[[Memory, Tensor], Any]:
    """Fresh memory that holds one byte everywhere."""
    plain = Memory._allocate

    def allocate(memory: Memory, tensor: Tensor) -> Any:
        return plain(memory, tensor) if tensor.data is not None else np.full(tensor.nbytes, byte, np.uint8)

    return allocate


def results(program: Program) -> set[bytes]:
    """The results of a program with several contents of fresh memory."""
    found = set[bytes]()
    for byte in (0xFF, 0x3C, 0x00, 0xC5):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Memory, "_allocate", filled(byte))
            found.add(reference.run(program, [A.copy(), MASK.copy()])[0].tobytes())
    return found


ENDS = st.tuples(st.integers(0, N - 1), st.integers(1, N)).map(lambda ends: (ends[0], min(ends[1], N - ends[0])))
PART = st.one_of(st.just((0, N)), ENDS)
WINDOW = st.tuples(PART, PART).map(lambda pair: (*pair[0], *pair[1]))
NUMBER = st.integers(0, 2)
WHAT = ("load", "turn", "product", "select", "predicated", "greater", "add", "triangle", "reduce")


@given(
    st.lists(WINDOW, min_size=3, max_size=3),
    st.lists(st.tuples(st.sampled_from(WHAT), NUMBER, NUMBER, NUMBER, WINDOW), max_size=5),
    WINDOW,
)
def test_an_error_says_that_the_result_depends_on_fresh_memory(
    parts: list[Window], steps: list[Step], result: Window
) -> None:
    arguments = (A, MASK, tuple(parts), tuple(steps), result)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPEN_NKI_HAZARDS", "0")
        program = stepped.compile(*arguments).kernel
    depends = len(results(program)) > 1
    refused = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            nki.simulate(stepped)(*arguments)
        except UnwrittenReadError as error:
            refused = error
    if depends:
        assert refused is not None
    elif refused is not None:
        assert "what came of it is in output" not in refused.message, "an operand without a defined byte is one alone"
