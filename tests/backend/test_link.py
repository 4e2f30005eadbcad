"""Routines and their operands that alias, and memory that a kernel leaves as it was."""

import numpy as np
import pytest

import nki
from nki import isa as nisa
from nki import language as nl
from nki.backend.cpu.kernel_ir.accesses import aliases
from nki.base import element_types as dtypes
from nki.ir.instruction import REGISTRY
from nki.ir.types import Access, Buffer, Tensor
from tests.support.kernel_parts import returned


def test_only_what_is_written_aliases_even_if_one_window_stands_in_two_fields() -> None:
    tile = Access.whole(Tensor("tile", (128, 64), dtypes.float32, Buffer.sbuf))
    again = Access.whole(tile.tensor)
    for dst, data in ((tile, tile), (tile, again)):
        inst = REGISTRY["tensor_scalar"](dst=dst, data=data, op0=nl.add, operand0=1.0)  # type: ignore[call-arg]
        assert aliases(inst) == ((0, 1, True),)


def test_windows_that_interleave_share_no_memory() -> None:
    tile = Tensor("tile", (128, 64), dtypes.float32, Buffer.sbuf)
    even, odd, left = (
        Access(tile, start, (128, 32), (64, step), tile.dtype) for start, step in ((0, 2), (1, 2), (0, 1))
    )
    for data, pairs in ((odd, ()), (left, ((0, 1, False),))):
        inst = REGISTRY["tensor_scalar"](dst=even, data=data, op0=nl.add, operand0=1.0)  # type: ignore[call-arg]
        assert aliases(inst) == pairs


@nki.jit
def left_alone(a):
    """Partitions 0 to 3 of a tile that nothing has filled are left out by the shuffle, and returned."""
    used = nl.load(a)
    nisa.tensor_copy(nl.ndarray(a.shape, a.dtype), used)
    row, moved = nl.load(a[0:32]), nl.ndarray((32, 32), a.dtype)
    nisa.nc_stream_shuffle(moved, row, [255] * 4 + list(range(4, 32)))
    return returned(moved)


def test_what_an_instruction_leaves_out_is_as_in_the_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the same in every launch: memory holds what it does before anyone writes, not what was there by chance."""
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")
    a = np.ones((64, 32), np.float32)
    assert left_alone(a).tobytes() == nki.simulate(left_alone)(a).tobytes()
