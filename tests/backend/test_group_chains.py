"""Chains on tiles of several groups in each partition: [p, g, c] with one number for each group, [p, g, 1]."""

from __future__ import annotations

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
pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")  # nl repeats columns
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
SHAPES = [
    (128, 8, 128), (48, 3, 32), (32, 5, 33), (16, 4, 100), (64, 2, 300), (32, 12, 64), (16, 3, 68), (32, 2, 96),
    (16, 2, 384), (33, 4, 64), (32, 4, 31),
]  # fmt: skip


def group_norm(x, gain, groups):
    """[p, g * c], [g * c]: each group by its mean and deviation, then scaled as rows."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    g = nl.broadcast_to(nl.load(gain.reshape((1, columns))), (rows, columns))
    tile = nl.load(x).reshape((rows, groups, columns // groups))
    d = nl.subtract(tile, nl.mean(tile, axis=2, keepdims=True))
    variance = nl.mean(nl.square(d), axis=2, keepdims=True)
    y = nl.multiply(d, nl.rsqrt(nl.add(variance, 1e-5)))
    nl.store(out, nl.multiply(y.reshape((rows, columns)), g))
    return out


def softmax_by_heads(x, gain, groups):
    """[p, g * c], [c]: softmax of each group times numbers that all groups share."""
    rows, columns = x.shape
    width = columns // groups
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    g = nl.broadcast_to(nl.load(gain[0:width].reshape((1, width))), (rows, width)).reshape((rows, 1, width))
    tile = nl.multiply(nl.load(x).reshape((rows, groups, width)), g)
    powers = nl.exp(nl.subtract(tile, nl.max(tile, axis=2, keepdims=True)))
    y = nl.divide(powers, nl.sum(powers, axis=2, keepdims=True))
    nl.store(out, y.reshape((rows, columns)))
    return out


def sums_of_products(x, gain, groups):
    """[p, g * c], [c]: products that their sums by group and others read, and sums that nobody else reads."""
    rows, columns = x.shape
    width = columns // groups
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    g = nl.broadcast_to(nl.load(gain[0:width].reshape((1, width))), (rows, width)).reshape((rows, 1, width))
    tile = nl.load(x).reshape((rows, groups, width))
    product = nl.multiply(tile, g)
    total = nl.sum(product, axis=2, keepdims=True)
    squares = nl.sum(nl.square(product), axis=2, keepdims=True)
    nl.store(out, nl.subtract(nl.multiply(product, total, dtype=nl.float32), squares).reshape((rows, columns)))
    return out


KERNELS = [group_norm, softmax_by_heads, sums_of_products]


def fused(kernel: Any, *arguments: Any) -> list[Inst]:
    """The instructions of a kernel after fusion."""
    return list(lower(nki.jit(kernel).compile(*arguments).kernel).instructions())


def chains(kernel: Any, *arguments: Any) -> list[list[str]]:
    """The mnemonics of the parts of each chain on more than one element of a group."""
    found = [inst for inst in fused(kernel, *arguments) if isinstance(inst, FusionGroup)]
    wide = [chain for chain in found if chain.read and max(access.free_elements for access in chain.read) > 32]
    return [[part.mnemonic for part in chain.parts] for chain in wide]


def inputs(shape: tuple[int, int, int], dtype: Any) -> tuple[Any, Any, int]:
    rows, groups, width = shape
    x, gain = numbers(rows, groups * width), numbers(2, groups * width)[1]
    x[0, -1], x[1, 0], x[2, 3], x[3] = np.inf, np.nan, -np.inf, -0.0
    return x.astype(dtype), gain.astype(dtype), groups


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_bits(kernel: Any, shape: tuple[int, int, int], dtype: Any) -> None:
    with np.errstate(all="ignore"):
        both(kernel, *inputs(shape, dtype))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kernel", KERNELS)
def test_threads(kernel: Any, dtype: Any, shared: pytest.MonkeyPatch) -> None:
    arguments = inputs((128, 6, 64), dtype)
    program = nki.jit(kernel).compile(*arguments).kernel
    with np.errstate(all="ignore"):
        (expected,) = executor.run(program, list(arguments[:2]))
        for (result,) in launched(program, arguments[:2], shared):
            assert result == np.ascontiguousarray(expected).tobytes()


def test_deviations_of_groups_are_computed_twice_and_have_no_memory() -> None:
    """The last chain reads and writes rows, of which groups are another view."""
    parts = chains(group_norm, *inputs((128, 8, 128), np.float32))
    assert parts[0] == ["tensor_tensor", "activation", "tensor_reduce"]
    assert parts[1][:2] == ["tensor_tensor", "tensor_tensor"] and parts[1][-1] == "tensor_tensor"
    written = [a for inst in fused(group_norm, *inputs((128, 8, 128), np.float32)) for a in inst.writes()]
    assert [access.name for access in written if access.partitions == 128 and access.free_elements > 8] == ["out"]


@pytest.mark.parametrize(("shape", "rides"), [((32, 12, 64), True), ((33, 4, 64), False), ((32, 4, 31), False)])
def test_sums_by_group_ride_along(shape: tuple[int, int, int], rides: bool) -> None:
    parts = chains(softmax_by_heads, *inputs(shape, np.float32))
    assert any(mnemonics[-2:] == ["activation", "tensor_reduce"] for mnemonics in parts) == rides


def test_sums_of_a_part_of_each_group_do_not_ride() -> None:
    def kernel(x):
        out = nl.ndarray((x.shape[0], 2), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x).reshape((x.shape[0], 2, x.shape[1] // 2))
        twice = nl.multiply(tile, 2.0)
        total = nl.ndarray((x.shape[0], 2, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, twice[:, :, 0:40], axis=2)
        nl.store(out, total.reshape((x.shape[0], 2)))
        return out

    x = numbers(32, 128)
    assert not any("tensor_reduce" in parts for parts in chains(kernel, x))
    both(kernel, x)


def test_sums_across_groups_do_not_ride() -> None:
    """Sums of each column over the groups: what one sum adds lies apart."""

    def kernel(x):
        out = nl.ndarray((x.shape[0], 32), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x).reshape((x.shape[0], 4, 32))
        twice = nl.multiply(tile, 2.0)
        total = nl.ndarray((x.shape[0], 32), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, twice.ap([[128, x.shape[0]], [1, 32], [32, 4]]), axis=2)
        nl.store(out, total)
        return out

    x = numbers(32, 128)
    assert not any("tensor_reduce" in parts for parts in chains(kernel, x))
    both(kernel, x)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_short_groups(width: int) -> None:
    """Groups that fill no vector are not worth a loop of their own."""

    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        groups = x.shape[1] // width
        tile, each = nl.load(x).reshape((x.shape[0], groups, width)), nl.load(y).reshape((y.shape[0], groups, 1))
        z = nl.add(nl.multiply(nl.subtract(tile, each), each), tile)
        nl.store(out, z.reshape(x.shape))
        return out

    x = numbers(48, 64)
    parts = chains(kernel, x, numbers(48, 64 // width))
    assert any(len(mnemonics) >= 3 for mnemonics in parts) == (width == 1 or width >= 16)
    both(kernel, x, numbers(48, 64 // width))
