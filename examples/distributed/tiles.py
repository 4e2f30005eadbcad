"""Parts of several kernels: tiles in and out, transposition, and the share of one core."""

from __future__ import annotations

import nki.isa as nisa
import nki.language as nl
from nki.collectives import ReplicaGroup

TILE = 128  # partitions of SBUF and PSUM, and columns of a stationary operand
BANK = 512  # float32 columns of a bank of PSUM: the widest result of one product


def all_ranks(ranks):
    """One group of the ranks 0 to ``ranks - 1``."""
    return ReplicaGroup([list(range(ranks))])


def my_share(items):
    """Every second item for one of two cores; all for the only one."""
    return items[nl.program_id(0) :: nl.num_programs(0)]


def blocks(length, size):
    """Slices of ``size`` that cover ``length``; the last may be shorter."""
    return [slice(first, min(first + size, length)) for first in range(0, length, size)]


def hbm(shape, dtype, name):
    """A tensor for a collective: named, shared by the cores, and neither an argument nor a result of the kernel."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm, name=name)


def like(tile, dtype=None):
    """A new tile in SBUF of the same shape."""
    return nl.ndarray(tile.shape, dtype=dtype or tile.dtype, buffer=nl.sbuf)


def load(source):
    """A block of a matrix in HBM as a tile, rows on the partitions."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def load_turned(sources):
    """Matrices [rows, columns] in HBM, one below the other -> tiles [128 columns, all rows]; the last may be narrower.

    A product contracts over partitions, so the columns have to get there: the Tensor engine transposes.
    """
    columns, rows = blocks(sources[0].shape[1], TILE), 0
    total = sum([source.shape[0] for source in sources])
    turned = [nl.ndarray((c.stop - c.start, total), dtype=sources[0].dtype, buffer=nl.sbuf) for c in columns]
    for source in sources:
        for part in blocks(source.shape[0], TILE):
            block = load(source[part, :])
            for tile, column in zip(turned, columns, strict=True):
                nisa.tensor_copy(dst=tile[:, rows : rows + block.shape[0]], src=transposed(block[:, column]))
            rows += block.shape[0]
    return turned


def transposed(tile):
    """[p, n] in SBUF -> [n, p] in PSUM."""
    result = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=result, data=tile)
    return result


def product(stationary, moving):
    """The sum of stationary.T @ moving over two lists of tiles, in a bank of PSUM."""
    shape = (stationary[0].shape[1], moving[0].shape[1])
    result = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    for number in range(len(stationary)):
        nisa.nc_matmul(dst=result, stationary=stationary[number], moving=moving[number], accumulate=number > 0)
    return result


def store(destination, result):
    """Write a result in PSUM to HBM, converted on the way through SBUF."""
    tile = like(result, destination.dtype)
    nisa.tensor_copy(dst=tile, src=result)
    nisa.dma_copy(dst=destination, src=tile)


def gated_hidden(turned, gates, ups):
    """silu(x gate) * (x up), turned: tiles [128 hidden, tokens]. All operands are lists of tiles of 128 features.

    In this form it is the stationary operand of the next product, and only ``x`` is ever transposed.
    """
    inner = []
    for columns in blocks(gates[0].shape[1], TILE):
        gated = product([w[:, columns] for w in gates], turned)
        raised = product([w[:, columns] for w in ups], turned)
        activated, tile = like(gated), like(gated, turned[0].dtype)
        nisa.activation(dst=activated, op=nl.silu, data=gated)
        nisa.tensor_tensor(dst=tile, data1=activated, data2=raised, op=nl.multiply)
        inner.append(tile)
    return inner
