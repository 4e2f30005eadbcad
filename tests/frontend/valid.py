"""Small kernels that together use the whole language: what the fuzzer mutates. Each takes ``x`` (8, 16) and more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

LIMITS = {"rows": [4, 8], "name": "limit"}
SCALES = (0.5, 2.0)


class Mode(Enum):
    plain = 1
    squared = 2


class Tiling(nl.NKIObject):
    rows: int = 4
    columns: int = 16
    parts: list = []  # noqa: RUF012

    def halves(self):
        return [nl.ds(0, self.rows), nl.ds(self.rows, self.rows)]

    @property
    def area(self):
        return self.rows * self.columns


@dataclass(frozen=True)
class Options(nl.NKIObject):
    mode: Mode = Mode.squared
    scale: float = 2.0


def finished(tile, *more, name="out"):
    """Helpers may take anything."""
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm, name=name)
    nisa.dma_copy(dst=out, src=tile)
    for other in more:
        assert other.shape == tile.shape, f"{other.shape} is not {tile.shape}"
    return out


def shifted_by(amount):
    def shift(tile, times=1):
        for _ in range(times):
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=amount)
        return tile

    return shift


@nki.jit
def doubled(tile):
    nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
    return tile


@nki.jit
def added(x, y):
    """Loads, adds and stores by instructions."""
    assert x.shape == y.shape
    assert x.shape[0] <= nl.tile_size.pmax, f"{x.shape[0]} rows"
    left = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=x)
    right = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=right, src=y)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=left)
    return out


@nki.jit
def tiled(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(math.ceil(rows / 4)):
        for j in range(0, columns, 8):
            start, stop = i * 4, min(rows, (i + 1) * 4)
            p, f = slice(start, stop), slice(j, min(columns, j + 8))
            tile = nl.ndarray((stop - start, 8), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[p, f])
            if i % 2 == 0 and j != 8:
                nisa.activation(dst=tile, data=tile, op=nl.exp, scale=0.5)
            elif not i:
                nisa.reciprocal(dst=tile, data=tile)
            else:
                continue
            nisa.dma_copy(dst=out[start:stop, f], src=tile)
    for k in range(1, 2):
        nisa.dma_copy(dst=out[k * 4 :, 0:8], src=x[k * 4 :, :8])
        nisa.dma_copy(dst=out[k * 4 :, 8:16], src=x[k * 4 :, 8:])
    return out


@nki.jit
def multiplied(x, y):
    left = nl.load(x)
    right = nl.load(y)
    total = nl.ndarray((16, 16), dtype=nl.float32, buffer=nl.psum)
    for k in range(2):
        nisa.nc_matmul(dst=total, stationary=left, moving=right, accumulate=k > 0)
    tile = nl.ndarray((16, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total, engine=nisa.engine.vector)
    return finished(tile)


@nki.jit
def containers(x):
    table = {"tiles": [], "n": 0, **LIMITS}
    while table["n"] < 3:
        table["n"] += 1
        if table["n"] == 2:
            continue
        table["tiles"].append(nl.load(x))
    else:
        table["done"] = True
    first, *others = table["tiles"]
    others.extend([first])
    sizes = {str(k): v for k, v in enumerate(LIMITS["rows"]) if v}
    names = [key for key in sorted(sizes, reverse=True)]  # noqa: C416
    for index, (tile, scale) in enumerate(zip(others, SCALES, strict=False)):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=scale + index + len(names))
    table.pop("done")
    return finished(others[-1], name="result" if "n" in table else "other")


@nki.jit
def functions(x):
    tile = nl.load(x)
    steps = [doubled, shifted_by(0.25), lambda t: shifted_by(1.5)(t, times=2)]
    for step in steps:
        tile = step(tile)

    def again(t, how=doubled):
        return how(t)

    return finished(again(tile), tile)


@nki.jit
def configured(x):
    tiling, options = Tiling(4), Options(scale=3.0)
    tiling.parts.append(tiling.area)
    assert tiling == Tiling(4, parts=[64]) and tiling != Tiling()
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for part in tiling.halves():
        tile = nl.load(x[part, :])
        if options.mode == Mode.squared:
            nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=options.scale)
        nl.store(out[part, :], tile)
    return out


@nki.jit
def reduced(x):
    tile = nl.load(x)
    total = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total, op1=nl.add, operand1=1.0)
    largest = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=(1,))
    return finished(tile), finished(largest, name="largest")


@nki.jit
def views(x):
    tile = nl.load(x)
    folded = tile.reshape((8, 4, 4))
    assert folded.shape == (8, 4, 4) and folded[:, 0].shape == (8, 4)
    other = nl.zeros((8, 4, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=other, src=folded[:, :, ::2])
    nisa.tensor_copy(dst=other[0:8, 1, ...], src=folded[..., 3, 0:2])
    nisa.memset(dst=other[0, 0:2], value=-1.0)
    with nl.no_reorder():
        nisa.tensor_copy(dst=folded[:, 0:2][:, 1:], src=folded[:, 3:4])
    return finished(other.reshape((8, 8)))


@nki.jit
def gathered(x):
    rows = nl.ndarray((4, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=rows, pattern=[[1, 1]], offset=1, channel_multiplier=2)
    tile = nl.ndarray((4, 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap([[16, 4], [1, 16]], 0, vector_offset=rows, indirect_dim=0))
    start = nisa.register_alloc(3)
    nisa.tensor_copy(dst=tile[:, 0:4], src=tile.ap([[16, 4], [1, 4]], 4, scalar_offset=start, indirect_dim=1))
    turned = tile.rearrange(("p", ("a", "b")), ("p", "b", "a"), {"a": 4})
    nisa.tensor_scalar(dst=turned[:, 1], data=turned[:, 2], op0=nl.add, operand0=1.0)
    return finished(tile.permute((0, 1)))


@nki.jit
def counted(x):
    tile = nl.load(x)
    limit = nisa.register_alloc(3)
    cell = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.register_store(dst=cell, src=limit)
    nisa.register_load(dst=limit, src=cell)

    def body(i):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)

    nl.fori_loop(0, limit, body)
    return finished(tile)


@nki.jit
def repeated(x):
    tile = nl.load(x)
    cell = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    register = nisa.register_alloc(3)
    while register:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.register_store(cell, register)
        nisa.tensor_scalar(dst=cell, data=cell, op0=nl.add, operand0=-1)
        nisa.register_load(register, cell)
    return finished(tile)


@nki.jit
def computed(x):
    size = int(np.prod(x.shape))
    total: int = 0
    for n in range(size):
        total += n if n % 3 else -1
        if total > 40:
            break
    print(f"{size=} {total:>4} {x.dtype!r}")
    low, high = (total // 7, divmod(total, 7)[1])
    values = [v**2 for v in range(3) if v != 1]
    tile = nl.load(x)
    nisa.tensor_scalar(
        dst=tile, data=tile, op0=nl.maximum, operand0=float(low), op1=nl.minimum, operand1=max(values) + high
    )
    return finished(tile if total is not None else None)


KERNELS = [value for value in list(globals().values()) if isinstance(value, nki.Kernel) and value is not doubled]
