"""The hostile simulator: what it refuses, what it warns of, and the closest program that it accepts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import AccumulationError, ClobberedReadError, StaleReadError, UnwrittenReadError
from nki.base.warning import NkiWarning
from nki.compilation import simulated_run
from nki.ir.instruction import Inst
from nki.ir.types import Buffer
from nki.target import ENVIRONMENT
from tests.kernels.test_corpus import CASES

A = np.arange(64 * 32, dtype=np.float32).reshape(64, 32) % 7


def given(kernel: Any, *arguments: Any) -> list[str]:
    """The warnings of a run in the simulator."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nki.simulate(kernel)(*arguments)
    return [str(w.message) for w in caught if w.category is NkiWarning]


@nki.jit
def ordered(a, early):
    """Reads a tile before its DMA, or behind it."""
    tile = nl.ndarray(a.shape, a.dtype)
    doubled = nl.ndarray(a.shape, a.dtype)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    if not early:
        nisa.dma_copy(tile, a)
    nisa.tensor_scalar(doubled, tile, nl.multiply, 2.0)
    if early:
        nisa.dma_copy(tile, a)
    nisa.dma_copy(out, doubled)
    return out


def test_a_tile_is_not_there_before_its_dma() -> None:
    np.testing.assert_array_equal(nki.simulate(ordered)(A, False), 2 * A)
    with pytest.raises(UnwrittenReadError, match=r"data 'tile' .* nothing was written yet, partitions 0 to 63, bytes"):
        nki.simulate(ordered)(A, True)


def unchecked(kernel: Any, *arguments: Any) -> Any:
    """The program of a kernel, compiled without a look at hazards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPEN_NKI_HAZARDS", "0")
        return kernel.compile(*arguments).kernel


def test_a_compiled_kernel_is_known_to_its_end() -> None:
    """So the message says where the tile is written later."""
    line = ordered.func.__code__.co_firstlineno + 10
    with pytest.raises(
        UnwrittenReadError, match=rf"written before \(dma_copy in line {line} does so only later\)"
    ) as e:
        simulated_run.run(unchecked(ordered, A, True), [A])
    assert e.value.fix == f"read it behind line {line}"
    (out,) = simulated_run.run(ordered.compile(A, False).kernel, [A])
    np.testing.assert_array_equal(out, 2 * A)


def test_the_switch_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")
    assert np.isnan(nki.simulate(ordered)(A, True)).all()
    (out,) = simulated_run.run(ordered.compile(A, True).kernel, [A])
    assert np.isnan(out).all()


@nki.jit
def carried_along(a, rows):
    """Transposes a tile after only some rows were loaded, and stores ``rows`` columns of the result."""
    tile = nl.ndarray((64, 32), a.dtype)
    nisa.dma_copy(tile[0:32], a[0:32])
    turned, kept = nl.ndarray((32, 64), a.dtype, buffer=nl.psum), nl.ndarray((32, 64), a.dtype)
    nisa.nc_transpose(turned, tile)
    nisa.tensor_copy(kept, turned)
    out = nl.ndarray((32, rows), a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, kept[:, 0:rows])
    return out


def test_undefined_lanes_may_be_carried_along() -> None:
    np.testing.assert_array_equal(nki.simulate(carried_along)(A, 32), A[0:32].T)
    with pytest.raises(UnwrittenReadError, match=r"partitions 32 to 63, .*in output 'out'.* from element \[0, 32\] on"):
        nki.simulate(carried_along)(A, 33)


@nki.jit
def predicated(a, fill):
    """Copies positive elements to a tile that nothing has written; ``fill`` copies the others."""
    tile, positive = nl.load(a), nl.ndarray(a.shape, nl.uint8)
    nisa.tensor_scalar(positive, tile, nl.greater, 0.0)
    chosen = nl.ndarray(a.shape, a.dtype)
    nisa.tensor_copy_predicated(chosen, tile, positive)
    if fill:
        nisa.tensor_copy_predicated(chosen, tile, positive, reverse_pred=True)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, chosen)
    return out


def test_a_predicated_copy_writes_what_it_chooses() -> None:
    np.testing.assert_array_equal(nki.simulate(predicated)(A, True), A)
    with pytest.raises(UnwrittenReadError, match=r"tensor_copy_predicated in line .* wrote other parts of it"):
        nki.simulate(predicated)(A, False)


@nki.jit
def in_rounds(a, ahead):
    """Every round of a loop writes row ``i`` of a tensor and reads its row ``i + ahead``."""
    kept = nl.ndarray((5, 32), a.dtype, buffer=nl.hbm)
    out = nl.ndarray((4, 32), a.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((1, 32), a.dtype)

    def body(i):
        nisa.dma_copy(kept[i], a[i])
        nisa.dma_copy(rows, kept[nl.ds(ahead, 4)][i])
        nisa.dma_copy(out[i], rows)

    nl.fori_loop(0, 4, body)
    return out


def test_all_rounds_of_a_loop_are_watched() -> None:
    np.testing.assert_array_equal(nki.simulate(in_rounds)(A, 0), A[0:4])
    with pytest.raises(UnwrittenReadError, match=r"src 'kept' .* bytes 128 to 255 from element \[1, 0\] on"):
        nki.simulate(in_rounds)(A, 1)


@nki.jit
def placed(a, order, shift):
    """Two tiles, the second ``shift`` bytes behind the first: 0 and 1 in ``order`` write them, 2 and 3 store them."""
    first = nl.ndarray(a.shape, a.dtype, address=(0, 0))
    second = nl.ndarray(a.shape, a.dtype, address=(0, shift))
    out = nl.ndarray((len(order), *a.shape), a.dtype, buffer=nl.shared_hbm)
    for i in range(len(order)):
        tile = first if order[i] % 2 == 0 else second
        if order[i] < 2:
            nisa.dma_copy(tile, a)
            nisa.dma_copy(out[i], a)
        else:
            nisa.dma_copy(out[i], tile)
    return out


@pytest.mark.parametrize("shift", [0, 64, 124])
def test_tiles_on_the_same_bytes(shift: int) -> None:
    for order in ((0, 2, 1, 3, 0, 2), (0, 2, 2, 1, 3, 3)):
        assert (nki.simulate(placed)(A, order, shift) == A).all()
    for order in ((0, 1, 2, 3), (0, 1, 3, 2)):
        assert (nki.simulate(placed)(A, order, 128) == A).all()
        with pytest.raises(ClobberedReadError, match=r"'first' .*, written by dma_copy in line .* wrote 'second'"):
            nki.simulate(placed)(A, order, shift)
    if shift == 0:
        with pytest.raises(StaleReadError, match=r"there is what dma_copy in line .* wrote to 'first'"):
            nki.simulate(placed)(A, (0, 3), shift)
    with pytest.raises(UnwrittenReadError):
        nki.simulate(placed)(A, (0, 3), 128)


@nki.jit
def summed(a, modes, between, zero):
    """Matmuls into one tile, each with its own ``accumulate``; the sum is read ``between`` them, and at the end."""
    tile = nl.load(a)
    total = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
    seen = nl.ndarray((32, 32), nl.float32)
    out = nl.ndarray((32, 32), nl.float32, buffer=nl.shared_hbm)
    if zero is not None:
        nisa.memset(total, zero)
    for i in range(len(modes)):
        if i and between:
            nisa.tensor_copy(seen, total)
        nisa.nc_matmul(total, tile, tile, accumulate=modes[i])
    nisa.tensor_copy(seen, total)
    nisa.dma_copy(out, seen)
    return out


@pytest.mark.parametrize(
    ("modes", "between", "zero", "target", "says"),
    [
        ((None, None), False, None, "trn2", ""),
        ((False, True), False, None, "trn2", ""),
        ((False, False), True, None, "trn2", ""),
        ((None, None), True, None, "trn2", r"goes on with the sum in dst 'total' .* tensor_copy in line \d+ has read"),
        ((False, True), True, None, "trn3", r"goes on with the sum in dst 'total' .* tensor_copy in line \d+ has read"),
        ((False, False), False, None, "trn2", "overwrites dst 'total' .* nothing has read"),
        ((None,), False, 0.0, "trn2", r"where memset in line \d+ wrote zeros; on trn2 that is undefined"),
        ((None,), False, 0.0, "trn3", ""),
        ((True,), False, 1.0, "trn3", ""),
        ((False,), False, 1.0, "trn2", ""),
    ],
)
def test_sums_in_psum(
    modes: Any, between: bool, zero: float | None, target: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, target)
    found = given(summed, A, modes, between, zero)
    assert len(found) == bool(says)
    if says:
        assert re.search(says, found[0])


def test_sums_that_no_matmul_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccumulationError, match="is added to where nothing was written"):
        nki.simulate(summed)(A, (True,), False, None)
    monkeypatch.setenv(ENVIRONMENT, "trn2")
    for mode in (True, None):
        with pytest.raises(AccumulationError, match=r"memset in line \d+ has written numbers other than 0"):
            nki.simulate(summed)(A, (mode,), False, 1.0)


@nki.jit
def iterated(a, how, loop):
    """``loop(3)`` with a tile made before it, used in a way that is or is not free of order."""
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    other, seven = nl.ndarray(a.shape, a.dtype), nl.full(a.shape, 7.0, a.dtype)
    psum = nl.ndarray((32, 32), nl.float32, buffer=nl.psum)
    for _ in loop(3):
        if how == "chain":
            nisa.activation(tile, nl.exp, tile)
        elif how == "sum":
            nisa.tensor_tensor(tile, tile, tile, nl.add)
        elif how == "own":
            nisa.tensor_copy(other, tile)
            nisa.activation(other, nl.exp, other)
        elif how == "psum":
            nisa.nc_matmul(psum, tile, tile)
        elif how == "columns":
            nisa.tensor_copy(tile[:, 0:8], tile[:, 8:16])
        elif how == "scalars":
            nisa.tensor_scalar(tile, tile, nl.subtract, 2.0, op1=nl.add, operand1=1.0)
        elif how == "products":
            nisa.scalar_tensor_tensor(tile, seven, nl.multiply, 2.0, nl.add, tile)
        elif how == "mixed":
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, op1=nl.add, operand1=1.0)
        elif how == "negated":
            nisa.tensor_tensor(tile, seven, tile, nl.subtract)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize(
    ("how", "free"),
    [
        ("chain", False),
        ("sum", True),
        ("own", True),
        ("psum", True),
        ("columns", True),
        ("scalars", True),
        ("products", True),
        ("mixed", False),
        ("negated", False),
    ],
)
def test_iterations_that_depend_on_each_other(how: str, free: bool) -> None:
    assert given(iterated, A, how, nl.sequential_range) == []
    found = given(iterated, A, how, nl.affine_range)
    assert len(found) == (not free)
    assert all(re.search(r": reads 'tile' \(64, 32\) float32, .*, which \w+ in line", text) for text in found)


@nki.jit
def partly(a, rows):
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out[0:rows], a[0:rows])
    return out


def test_outputs_written_in_part_are_told_of() -> None:
    assert given(partly, A, 64) == []
    (text,) = given(partly, A, 48)
    assert "25.0% of it, bytes 6144 to 8191 from element [48, 0] on" in text


@nki.jit
def repeated(a, rounds):
    tile = nl.load(a)
    out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
    nl.fori_loop(0, nisa.register_alloc(nl.load(rounds)), lambda i: nl.store(out, tile))
    return out


def test_a_run_that_writes_nothing_to_an_output_is_told_of() -> None:
    rounds = np.array([[1]], np.int32)
    assert given(repeated, A, rounds) == []
    (text,) = given(repeated, A, 0 * rounds)
    assert "output 'out' (64, 32) float32: this run writes nothing to it" in text
    program = repeated.compile(A, rounds).kernel
    with pytest.warns(NkiWarning, match="this run writes nothing to it"):
        simulated_run.run(program, [A, 0 * rounds])


# Kernels that have loops, or write all their tiles in parts or by more than one instruction.
PIECEMEAL = {
    "closure_over_constants",
    "configured",
    "constants_of_every_kind",
    "functions_are_values",
    "halves_exchanged",
    "positions",
    "prefix_sums",
    "random_bits",
    "rearranged_partitions",
    "reshaped_and_strided",
    "rmsnorm",
    "softmax_on_one_engine",
    "sum_of_pages_by_int32",
    "sum_of_pages_by_int64",
    "top_k",
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_the_corpus_without_one_of_its_writes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the writes that fill a tile is left out: the first instruction that reads the tile is refused."""
    case = CASES[name]
    monkeypatch.setenv(ENVIRONMENT, case.targets[-1])
    arguments = case.arguments()
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    kernel = case.kernel.compile(*arguments).kernel
    simulated_run.run(kernel, arrays)
    filling = [i for i in range(len(kernel.core.body)) if fills(kernel.core.body, i)]
    assert bool(filling) is (name not in PIECEMEAL)
    for number in filling[:3]:
        body: list[Any] = list(kernel.core.body)
        tensor = body.pop(number).writes()[0].tensor
        reader = next(inst for inst in body if any(a.tensor is tensor for a in inst.reads()))
        with pytest.raises(UnwrittenReadError) as caught:
            simulated_run.run(kernel.with_cores([kernel.core.with_body(body)]), arrays)
        assert f"'{tensor.name}'" in caught.value.message
        assert caught.value.span == reader.where.span


def fills(body: Sequence[Any], index: int) -> bool:
    """Whether an instruction alone writes a tile on chip, all of it at once, and later ones read it."""
    if not all(isinstance(inst, Inst) for inst in body):
        return False
    written = body[index].writes()
    if len(written) != 1 or written[0].buffer not in (Buffer.sbuf, Buffer.psum):
        return False
    tensor = written[0].tensor
    alone = sum(access.tensor is tensor for inst in body for access in inst.writes()) == 1
    read = any(access.tensor is tensor for inst in body[index + 1 :] for access in inst.reads())
    return alone and read and written[0].size == tensor.elements
