"""Several sums by row that ride along with one chain: which do, what moves for them, and the bits of the simulator."""

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
pytestmark = pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")  # nl repeats columns
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
SHAPES = [(128, 256), (16, 32), (32, 33), (48, 100), (64, 130), (16, 1000), (128, 65), (33, 64), (32, 31)]


def gradient_of_layer_norm(dy, x, mean, scale, gain):
    """[p, n], [p, n], [p, 1], [p, 1], [n]: the gradient by x. A mean of the first sum comes before the second sum."""
    rows, width = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gains = nl.broadcast_to(nl.load(gain.reshape((1, width))), (rows, width))
    a, m, r = nl.load(dy), nl.load(mean), nl.load(scale)
    normal = nl.multiply(nl.subtract(nl.load(x), m), r)
    scaled = nl.multiply(a, gains)
    first = nl.mean(scaled, axis=1, keepdims=True)
    second = nl.mean(nl.multiply(scaled, normal), axis=1, keepdims=True)
    nl.store(out, nl.multiply(nl.subtract(nl.subtract(scaled, first), nl.multiply(normal, second)), r))
    return out


def cosine(dy, x, mean, scale, gain):
    """The cosine of two rows: three sums that nothing but a column depends on."""
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b = nl.load(dy), nl.load(x)
    product = nl.sum(nl.multiply(a, b), axis=1, keepdims=True, dtype=nl.float32)
    left = nl.sum(nl.square(a), axis=1, keepdims=True, dtype=nl.float32)
    right = nl.sum(nl.square(b), axis=1, keepdims=True, dtype=nl.float32)
    nl.store(out, nl.multiply(product, nl.rsqrt(nl.multiply(left, right))))
    return out


def five_sums(dy, x, mean, scale, gain):
    """Five sums of exponentials and products, one more than one loop takes."""
    outs = [nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(5)]
    a, b = nl.load(dy), nl.load(x)
    tiles = [nl.multiply(a, b), nl.exp(a), nl.square(b), nl.add(a, b), nl.subtract(a, b)]
    for number, tile in enumerate(tiles):
        total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, tile, axis=-1, negate=number == 1)
        nl.store(outs[number], total)
    return tuple(outs)


KERNELS = [gradient_of_layer_norm, cosine, five_sums]


def inputs(shape: tuple[int, int], dtype: Any) -> list[Any]:
    rows, width = shape
    draw = np.random.default_rng(3)
    dy, x = draw.normal(size=shape).astype(np.float32), numbers(*shape)
    x[0, -1], dy[1, 0], x[2, 3], x[3] = np.inf, np.nan, -np.inf, -0.0
    mean, scale = draw.normal(size=(rows, 1)).astype(np.float32), draw.uniform(0.5, 2, (rows, 1)).astype(np.float32)
    return [dy.astype(dtype), x.astype(dtype), mean, scale, draw.normal(size=width).astype(dtype)]


def fused(kernel: Any, *arguments: Any) -> list[Inst]:
    """The instructions of a kernel after fusion."""
    return list(lower(nki.jit(kernel).compile(*arguments).kernel).instructions())


def sums(kernel: Any, *arguments: Any) -> list[int]:
    """The number of sums in each chain that has some."""
    chains = [inst for inst in fused(kernel, *arguments) if isinstance(inst, FusionGroup)]
    numbers = [[part.mnemonic for part in chain.parts].count("tensor_reduce") for chain in chains]
    return [number for number in numbers if number]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_bits(kernel: Any, shape: tuple[int, int], dtype: Any) -> None:
    with np.errstate(all="ignore"):
        both(kernel, *inputs(shape, dtype))


@pytest.mark.parametrize("dtype", DTYPES[:2])
@pytest.mark.parametrize("kernel", KERNELS)
def test_threads(kernel: Any, dtype: Any, shared: pytest.MonkeyPatch) -> None:
    arguments = inputs((128, 200), dtype)
    program = nki.jit(kernel).compile(*arguments).kernel
    with np.errstate(all="ignore"):
        expected = [np.ascontiguousarray(result).tobytes() for result in executor.run(program, arguments)]
        assert all(list(results) == expected for results in launched(program, arguments, shared))


@pytest.mark.parametrize(("kernel", "expected"), [(gradient_of_layer_norm, [2]), (cosine, [3]), (five_sums, [4])])
def test_sums_share_a_loop(kernel: Any, expected: list[int]) -> None:
    assert sums(kernel, *inputs((128, 200), np.float32)) == expected


def test_sums_of_results_of_16_bits_stay_where_they_are() -> None:
    assert sums(gradient_of_layer_norm, *inputs((128, 200), ml_dtypes.bfloat16)) == [1, 1]


def test_no_sum_shares_a_loop_without_whole_groups_of_rows() -> None:
    assert sums(cosine, *inputs((33, 64), np.float32)) == []


def by_groups(x, y, groups):
    """[p, g * c], twice: two sums of each group."""
    rows, columns = x.shape
    outs = [nl.ndarray((rows, groups), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
    tile = nl.load(x)
    product, square = nl.multiply(tile, nl.load(y)), nl.square(tile)
    one = nl.sum(product.reshape((rows, groups, columns // groups)), axis=2)
    two = nl.sum(square.reshape((rows, groups, columns // groups)), axis=2)
    nl.store(outs[0], one)
    nl.store(outs[1], two)
    return tuple(outs)


def by_other_groups(x, y, groups):
    """[p, g * c], twice: sums of groups, and sums of groups of half the size."""
    rows, columns = x.shape
    outs = [nl.ndarray((rows, count * groups), dtype=nl.float32, buffer=nl.shared_hbm) for count in (1, 2)]
    tile = nl.load(x)
    product, square = nl.multiply(tile, nl.load(y)), nl.square(tile)
    one = nl.sum(product.reshape((rows, groups, columns // groups)), axis=2)
    two = nl.sum(square.reshape((rows, 2 * groups, columns // groups // 2)), axis=2)
    nl.store(outs[0], one)
    nl.store(outs[1], two)
    return tuple(outs)


@pytest.mark.parametrize(("groups", "width"), [(4, 64), (3, 32), (2, 100), (5, 68), (2, 300), (1, 128)])
def test_groups(groups: int, width: int) -> None:
    x = numbers(48, groups * width)
    y = x[::-1].copy()
    x[1, 5] = np.nan
    assert sums(by_groups, x, y, groups) == [2]
    assert max(sums(by_other_groups, x, y, groups), default=0) < 2
    for kernel in (by_groups, by_other_groups):
        both(kernel, x, y, groups)


def two_sums(between: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel with two sums, of x y and of what ``between`` gives after the first one."""

    def kernel(x, y):
        outs = [nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm) for _ in range(2)]
        a, b = nl.load(x), nl.load(y)
        product, first = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf), column(a)
        nisa.tensor_tensor(product, a, b, nl.multiply)
        nisa.tensor_reduce(first, nl.add, product, axis=-1)
        tile = between(product, first, a)
        second = column(a)
        nisa.tensor_reduce(second, nl.add, tile, axis=-1)
        nl.store(outs[0], first)
        nl.store(outs[1], second)
        return tuple(outs)

    return kernel


def column(tile):
    return nl.ndarray((tile.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)


def independent(product, first, a):
    nisa.tensor_scalar(first, first, nl.multiply, 0.5)
    result = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(result, product, a, nl.subtract)
    return result


def of_the_first_sum(product, first, a):
    result = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(result, product, nl.subtract, first)
    return result


def of_its_mean(product, first, a):
    mean, result = column(a), nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(mean, first, nl.multiply, 0.5)
    nisa.tensor_scalar(result, product, nl.subtract, mean)
    return result


def in_place(product, first, a):
    """What the first sum has read changes."""
    nisa.tensor_tensor(product, product, a, nl.add)
    return product


def in_place_behind_a_column(product, first, a):
    """What a column before has read changes."""
    nisa.tensor_tensor(first, first, product[:, 3:4], nl.add)
    nisa.tensor_tensor(product, product, a, nl.add)
    return product


def over_a_column(product, first, a):
    """What is added has a column that is written after the first sum, and by no chain."""
    result = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(result, product, a, nl.add)
    nisa.tensor_copy(result[:, 2:3], first)
    return result


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (independent, [2]),
        (of_the_first_sum, [1, 1]),
        (of_its_mean, [1, 1]),
        (in_place, [1, 1]),
        (in_place_behind_a_column, [1, 1]),
        (over_a_column, [1]),
    ],
)
def test_only_what_is_independent_moves(between: Any, expected: list[int]) -> None:
    x, y = numbers(64, 96), np.random.default_rng(9).normal(size=(64, 96)).astype(np.float32)
    x[5, 7], y[6, 1] = np.inf, np.nan
    kernel = two_sums(between)
    assert sums(kernel, x, y) == expected
    with np.errstate(all="ignore"):
        both(kernel, x, y)


def tiles(dy, x, mean, scale, gain):
    """Two sums of each tile."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, x.shape[0], 64):
        a, b = nl.load(dy[start : start + 64]), nl.load(x[start : start + 64])
        first = nl.sum(nl.multiply(a, b), axis=1, keepdims=True)
        second = nl.sum(nl.square(b), axis=1, keepdims=True)
        nl.store(out[start : start + 64], nl.subtract(nl.multiply(b, second), nl.multiply(a, first)))
    return out


def test_tiles() -> None:
    arguments = inputs((192, 80), np.float32)
    assert sums(tiles, *arguments) == [2, 2, 2]
    with np.errstate(all="ignore"):
        both(tiles, *arguments)


def test_an_operand_times_a_row_that_all_partitions_share_is_computed_again() -> None:
    def kernel(dy, x, mean, scale, gain):
        rows, width = x.shape
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        gains = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(gains, gain.reshape((1, width)).ap([[0, rows], [1, width]]))
        scaled, result = (nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
        total = column(x)
        nisa.tensor_tensor(scaled, nl.load(x), gains, nl.multiply)
        nisa.tensor_reduce(total, nl.add, scaled, axis=-1)
        nisa.tensor_scalar(result, scaled, nl.subtract, total)
        nl.store(out, result)
        return out

    arguments = inputs((64, 100), np.float32)
    written = [
        access.name for inst in fused(kernel, *arguments) for access in inst.writes() if access.free_elements > 1
    ]
    assert written == ["out"]
    with np.errstate(all="ignore"):
        both(kernel, *arguments)
