"""Instructions that run again where their results are read: what does, what needs no memory then, and the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.fusion.group import FusionGroup
from nki.backend.numpy import executor
from nki.compilation.executable import lower
from nki.ir.instruction import Inst
from tests.support.both_executors import both, numbers
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]
pytestmark = pytest.mark.filterwarnings(
    "ignore::nki.base.warning.NkiPortabilityWarning"
)  # functions of nl repeat columns


def like(tile, dtype=nl.float32):
    return nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)


def column(tile):
    return nl.ndarray((tile.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)


def fused(kernel: Any, *arguments: Any) -> list[Inst]:
    """The instructions of a kernel after fusion."""
    return list(lower(nki.jit(kernel).compile(*arguments).kernel).instructions())


def stored(kernel: Any, *arguments: Any) -> list[str]:
    """The names of the tensors of several columns that are written, in order."""
    writes = [access for inst in fused(kernel, *arguments) for access in inst.writes()]
    return [access.name for access in writes if access.free_elements > 1]


def layer_norm(x, gain, shift):
    """[n, f], [f], [f]: in the words of a tutorial, in tiles of 128 rows."""
    rows, width = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    g, b = (nl.broadcast_to(nl.load(v.reshape((1, width))), (128, width)) for v in (gain, shift))
    for first in range(0, rows, 128):
        tile = nl.load(x[first : first + 128])
        d = nl.subtract(tile, nl.mean(tile, axis=1, keepdims=True))
        variance = nl.mean(nl.square(d), axis=1, keepdims=True)
        y = nl.add(nl.multiply(nl.multiply(d, nl.rsqrt(nl.add(variance, 1e-5))), g), b)
        nl.store(out[first : first + 128], y)
    return out


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_norm_keeps_its_result_only(dtype: Any, shared: pytest.MonkeyPatch) -> None:
    x, gain, shift = numbers(384, 200).astype(dtype), numbers(200).astype(dtype), numbers(2, 200)[1].astype(dtype)
    x[3, 5], x[130, 0], x[131, 7] = np.nan, np.inf, -0.0
    names = stored(layer_norm, x, gain, shift)
    assert names[-1] == "out" and names.count("out") == 3
    assert not {"g", "b"} & set(names) and ("d" in names) == (dtype is not np.float32)
    kernel = nki.jit(layer_norm).compile(x, gain, shift).kernel
    with np.errstate(all="ignore"):
        (expected,) = executor.run(kernel, [x, gain, shift])
        for (result,) in launched(kernel, [x, gain, shift], shared):
            assert result == np.ascontiguousarray(expected).tobytes()
        both(layer_norm, x, gain, shift)


def apart(first: Callable[..., None], between: Callable[..., None]) -> Callable[..., Any]:
    """A kernel that computes a tile ``b`` by ``first``, reads it, and reads it again after ``between``."""

    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        a, v, top = like(x), column(x), column(x)
        nisa.activation(a, nl.tanh, nl.load(x))
        nisa.tensor_reduce(top, nl.minimum, a, axis=1)
        nisa.tensor_tensor(v, nl.load(y), top, nl.add)
        b = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        c = like(a)
        first(b, a, v)
        nisa.activation(c, nl.tanh, b)
        nisa.tensor_reduce(top, nl.maximum, c, axis=1)
        between(a, b, c, v)
        nisa.tensor_scalar(c, b, nl.subtract, top)
        nisa.activation(c, nl.exp, c)
        nl.store(out, c)
        return out

    return kernel


def shifted(b, a, v):
    nisa.tensor_scalar(b, a, nl.subtract, v)


def nothing(a, b, c, v):
    pass


def test_a_difference_runs_again() -> None:
    x, y = numbers(64, 40), numbers(64, 1)
    kernel = apart(shifted, nothing)
    assert "b" not in stored(kernel, x, y)
    last = fused(kernel, x, y)[-1]
    assert isinstance(last, FusionGroup)
    assert [part.mnemonic for part in last.parts] == ["tensor_scalar", "tensor_scalar", "activation"]
    both(kernel, x, y)


def constant(b, a, v):
    nisa.memset(b, 0.5)


def copied(b, a, v):
    nisa.tensor_copy(b, a)


@pytest.mark.parametrize("first", [constant, copied])
def test_constants_and_copies_run_again(first: Any) -> None:
    x, y = numbers(64, 40), numbers(64, 1)
    kernel = apart(first, nothing)
    assert "b" not in stored(kernel, x, y)
    both(kernel, x, y)


def function(b, a, v):
    nisa.activation(b, nl.exp, a, bias=v)


def three_operators(b, a, v):
    nisa.activation(b, nl.square, a, bias=v, scale=v)


def divided(b, a, v):
    nisa.tensor_scalar(b, a, nl.divide, v)


def positions(b, a, v):
    nisa.iota(b, [[1, a.shape[1]]], offset=0)


def a_part(b, a, v):
    nisa.memset(b, 1.0)
    nisa.tensor_scalar(b[:, :20], a[:, :20], nl.subtract, v)


@pytest.mark.parametrize("first", [function, three_operators, divided, positions, a_part])
def test_what_is_not_cheap_is_kept(first: Any) -> None:
    x, y = numbers(64, 40), numbers(64, 1)
    kernel = apart(first, nothing)
    assert "b" in stored(kernel, x, y)
    with np.errstate(all="ignore"):
        both(kernel, x, y)


def test_what_two_tiles_give_is_kept() -> None:
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        a, d, top = nl.load(x), nl.load(y), column(x)
        b = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        c = like(a)
        nisa.tensor_tensor(b, a, d, nl.add)
        nisa.activation(c, nl.tanh, b)
        nisa.tensor_reduce(top, nl.maximum, c, axis=1)
        nisa.tensor_scalar(c, b, nl.subtract, top)
        nl.store(out, c)
        return out

    x = numbers(64, 40)
    assert "b" in stored(kernel, x, x + 1)
    both(kernel, x, x + 1)


def changed_column(a, b, c, v):
    nisa.tensor_scalar(v, v, nl.multiply, 2.0)


def changed_result(a, b, c, v):
    nisa.tensor_scalar(b[:, :20], c[:, :20], nl.multiply, 2.0)


def changed_source(a, b, c, v):
    nisa.tensor_scalar(a, c, nl.multiply, 2.0)


@pytest.mark.parametrize("between", [changed_column, changed_result, changed_source])
def test_what_has_changed_is_not_computed_again(between: Any) -> None:
    x, y = numbers(64, 40), numbers(64, 1)
    kernel = apart(shifted, between)
    assert "b" in stored(kernel, x, y)
    both(kernel, x, y)


def changed_in_a_loop(a, b, c, v):
    def body(_):
        nisa.tensor_scalar(v, v, nl.multiply, 2.0)

    nl.fori_loop(0, 2, body)


def test_what_a_loop_has_changed_is_not_computed_again() -> None:
    x, y = numbers(64, 40), numbers(64, 1)
    kernel = apart(shifted, changed_in_a_loop)
    assert "b" in stored(kernel, x, y)
    both(kernel, x, y)


def test_a_tile_that_others_read_is_kept() -> None:
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        turned = nl.ndarray((x.shape[1], x.shape[0]), dtype=nl.float32, buffer=nl.shared_hbm)
        a, v, top = nl.load(x), nl.load(y), column(x)
        b = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        c = like(a)
        shifted(b, a, v)
        nisa.activation(c, nl.tanh, b)
        nisa.tensor_reduce(top, nl.maximum, c, axis=1)
        nisa.tensor_scalar(c, b, nl.subtract, top)
        nl.store(out, c)
        p = nl.ndarray((x.shape[1], x.shape[0]), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_transpose(p, b)
        t = like(p)
        nisa.tensor_copy(t, p)
        nl.store(turned, t)
        return out, turned

    x, y = numbers(64, 40), numbers(64, 1)
    insts = fused(kernel, x, y)
    assert stored(kernel, x, y).count("b") == 1
    assert not any(part.mnemonic == "activation" for part in getattr(insts[-1], "parts", ()))
    both(kernel, x, y)


def test_rounds_of_a_loop_repeat_too(shared: pytest.MonkeyPatch) -> None:
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        a, v, top = nl.load(x), nl.load(y), column(x)
        b = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        total, c = like(a), like(a)
        nisa.memset(total, 0.0)

        def body(_):
            shifted(b, a, v)
            nisa.activation(c, nl.tanh, b)
            nisa.tensor_reduce(top, nl.maximum, c, axis=1)
            nisa.scalar_tensor_tensor(total, b, nl.subtract, top, nl.add, total)
            nisa.tensor_scalar(v, v, nl.multiply, 0.5)

        nl.fori_loop(0, 3, body)
        nl.store(out, total)
        return out

    x, y = numbers(64, 40), numbers(64, 1)
    assert "b" not in stored(kernel, x, y)
    program = nki.jit(kernel).compile(x, y).kernel
    (expected,) = executor.run(program, [x, y])
    for (result,) in launched(program, [x, y], shared):
        assert result == np.ascontiguousarray(expected).tobytes()


def test_a_reader_that_shares_no_loop_reads_memory() -> None:
    """The reader turns its operand's elements around, so no loop follows both."""

    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        a, v, top = nl.load(x), nl.load(y), column(x)
        b = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        c, d = like(a), like(a)
        shifted(b, a, v)
        nisa.activation(c, nl.tanh, b)
        nisa.tensor_reduce(top, nl.maximum, c, axis=1)
        nisa.tensor_tensor(d, b, b.ap([[40, 64], [1, 8], [8, 5]]), nl.add)
        nl.store(out, d)
        return out

    x, y = numbers(64, 40), numbers(64, 1)
    assert stored(kernel, x, y).count("b") == 1
    both(kernel, x, y)


@pytest.mark.parametrize("tiles", [2, 9, 40])
def test_one_repetition_for_each_reader(tiles: int) -> None:
    x, gain, shift = numbers(128 * tiles, 32), numbers(32), numbers(32)
    insts = fused(layer_norm, x, gain, shift)
    last = [inst for inst in insts if isinstance(inst, FusionGroup) and inst.parts[-1].mnemonic != "tensor_reduce"]
    assert [len(chain.parts) for chain in last] == [6] * tiles
