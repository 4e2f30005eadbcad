"""Matrix products ``lhsT.T @ rhs`` in the forms with published times on trn2; written for this comparison.

M, K and N are the sizes of the product; tiles are 128 x 128 (stationary) and 128 x 512 (moving).
"""

# pyright: basic

import nki
import nki.isa as nisa
import nki.language as nl
from nki.compiler import CompileConfig

P = 128
COLUMNS = 512


def _load(source, row, column, columns):
    """A tile of SBUF with 128 rows of ``source``, from ``row`` on, and ``columns`` of its columns."""
    tile = nl.ndarray((P, columns), dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source[row : row + P, column : column + columns])
    return tile


def _store(result, row, column, total):
    """Copy the sum in PSUM to ``result``, by way of SBUF."""
    rows, columns = total.shape
    tile = nl.ndarray((rows, columns), dtype=result.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total)
    nisa.dma_copy(dst=result[row : row + rows, column : column + columns], src=tile)


def _result(lhsT, rhs):
    return nl.ndarray((lhsT.shape[1], rhs.shape[1]), dtype=lhsT.dtype, buffer=nl.shared_hbm)


def _sum():
    return nl.ndarray((P, COLUMNS), dtype=nl.float32, buffer=nl.psum)


@nki.jit
def tiled(lhsT, rhs):
    """Both tiles are loaded for every product."""
    result = _result(lhsT, rhs)
    for row in range(0, lhsT.shape[1], P):
        for column in range(0, rhs.shape[1], COLUMNS):
            total = _sum()
            for k in range(0, lhsT.shape[0], P):
                stationary = _load(lhsT, k, row, P)
                moving = _load(rhs, k, column, COLUMNS)
                nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
            _store(result, row, column, total)
    return result


@nki.jit(compile_config=CompileConfig())
def blocked_rows_and_columns(lhsT, rhs, row_tiles=1, column_tiles=1):
    """All of K for a block of ``row_tiles`` by ``column_tiles`` tiles of the result stays in SBUF."""
    result = _result(lhsT, rhs)
    depth = range(0, lhsT.shape[0], P)
    for block in range(0, lhsT.shape[1], P * row_tiles):
        rows = range(block, block + P * row_tiles, P)
        stationary = [[_load(lhsT, k, row, P) for k in depth] for row in rows]
        for start in range(0, rhs.shape[1], COLUMNS * column_tiles):
            columns = range(start, start + COLUMNS * column_tiles, COLUMNS)
            moving = [[_load(rhs, k, column, COLUMNS) for k in depth] for column in columns]
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    total = _sum()
                    for k in range(len(depth)):
                        nisa.nc_matmul(dst=total, stationary=stationary[i][k], moving=moving[j][k])
                    _store(result, row, column, total)
    return result


@nki.jit
def blocked_rows(lhsT, rhs, row_tiles=2):
    """All of K for ``row_tiles`` tiles of lhsT, and for one of rhs at a time, stays in SBUF."""
    result = _result(lhsT, rhs)
    depth = range(0, lhsT.shape[0], P)
    for block in range(0, lhsT.shape[1], P * row_tiles):
        rows = range(block, block + P * row_tiles, P)
        stationary = [[_load(lhsT, k, row, P) for k in depth] for row in rows]
        for column in range(0, rhs.shape[1], COLUMNS):
            moving = [_load(rhs, k, column, COLUMNS) for k in depth]
            for i, row in enumerate(rows):
                total = _sum()
                for k in range(len(depth)):
                    nisa.nc_matmul(dst=total, stationary=stationary[i][k], moving=moving[k])
                _store(result, row, column, total)
    return result


@nki.jit
def blocked_with_long_rows(lhsT, rhs, row_tiles=8, column_tiles=2):
    """As :func:`blocked_rows_and_columns`, with one load for all tiles of a block that share their rows."""
    result = _result(lhsT, rhs)
    depth = range(0, lhsT.shape[0], P)
    for block in range(0, lhsT.shape[1], P * row_tiles):
        stationary = [_load(lhsT, k, block, P * row_tiles) for k in depth]
        for start in range(0, rhs.shape[1], COLUMNS * column_tiles):
            moving = [_load(rhs, k, start, COLUMNS * column_tiles) for k in depth]
            for row in range(0, P * row_tiles, P):
                for column in range(0, COLUMNS * column_tiles, COLUMNS):
                    total = _sum()
                    for k in range(len(depth)):
                        nisa.nc_matmul(
                            dst=total,
                            stationary=stationary[k][:, row : row + P],
                            moving=moving[k][:, column : column + COLUMNS],
                        )
                    _store(result, block + row, start + column, total)
    return result


@nki.jit(compile_config=CompileConfig())
def blocked(lhsT, rhs, row_tiles=16, column_tiles=2, depth_tiles=8):
    """Blocks of all three dimensions; partial sums are added in SBUF, which does not hold them all."""
    result = _result(lhsT, rhs)
    height, width, depth = P * row_tiles, COLUMNS * column_tiles, P * depth_tiles
    blocks = range(0, lhsT.shape[1], height)
    for start in range(0, rhs.shape[1], width):
        sums = {}
        for row in range(0, lhsT.shape[1], P):
            for column in range(0, width, COLUMNS):
                sums[row, column] = nl.ndarray((P, COLUMNS), dtype=lhsT.dtype, buffer=nl.sbuf)
                nisa.memset(dst=sums[row, column], value=0.0)
        for base in range(0, lhsT.shape[0], depth):
            moving = [_load(rhs, k, start, width) for k in range(base, base + depth, P)]
            for block in blocks:
                stationary = [_load(lhsT, k, block, height) for k in range(base, base + depth, P)]
                for column in range(0, width, COLUMNS):
                    for row in range(0, height, P):
                        total = _sum()
                        for k in range(depth_tiles):
                            nisa.nc_matmul(
                                dst=total,
                                stationary=stationary[k][:, row : row + P],
                                moving=moving[k][:, column : column + COLUMNS],
                            )
                        kept = sums[block + row, column]
                        nisa.tensor_tensor(dst=kept, data1=kept, data2=total, op=nl.add)
        for row in range(0, lhsT.shape[1], P):
            packed = nl.ndarray((P, width), dtype=lhsT.dtype, buffer=nl.sbuf)
            for column in range(0, width, COLUMNS):
                nisa.tensor_copy(dst=packed[:, column : column + COLUMNS], src=sums[row, column])
            nisa.dma_copy(dst=result[row : row + P, start : start + width], src=packed)
    return result


@nki.jit
def repeated(lhsT, rhs, count=512, shapes=((P, P, COLUMNS),)):
    """``count`` products of one pair of tiles for each of ``shapes`` (K, M, N), which fit into the tiles."""
    result = nl.ndarray((P, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
    stationary, moving = _load(lhsT, 0, 0, P), _load(rhs, 0, 0, COLUMNS)
    for k, m, n in shapes:
        total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
        for i in range(count):
            nisa.nc_matmul(dst=total, stationary=stationary[0:k, 0:m], moving=moving[0:k, 0:n], accumulate=i > 0)
        _store(result, 0, 0, total)
    return result


@nki.jit
def tiled_and_transposed(lhs, rhs):
    """As :func:`tiled`, but the Tensor engine transposes each tile of the left operand for its product."""
    rows, depth = lhs.shape
    result = nl.ndarray((rows, rhs.shape[1]), dtype=lhs.dtype, buffer=nl.shared_hbm)
    for row in range(0, rows, P):
        for column in range(0, rhs.shape[1], COLUMNS):
            total = _sum()
            for k in range(0, depth, P):
                turned = nl.ndarray((P, P), dtype=lhs.dtype, buffer=nl.psum)
                stationary = nl.ndarray((P, P), dtype=lhs.dtype, buffer=nl.sbuf)
                nisa.nc_transpose(dst=turned, data=_load(lhs, row, k, P))
                nisa.tensor_copy(dst=stationary, src=turned)
                nisa.nc_matmul(dst=total, stationary=stationary, moving=_load(rhs, k, column, COLUMNS))
            _store(result, row, column, total)
    return result
