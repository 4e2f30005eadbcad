"""Copies, transfers, transposes, shuffles and gathers."""

import nki
import nki.isa as nisa
import nki.language as nl

ARGUMENTS = {
    "dma_copy": ["256x512:float32"],
    "dma_compute": ["128x512:float32", "128x512:float32"],
    "dma_transpose": ["128x64:bfloat16"],
    "tensor_copy": ["128x512:float32"],
    "memset": [],
    "nc_transpose": ["128x64:float32"],
    "nc_stream_shuffle": ["128x512:float32"],
    "nc_n_gather": ["128x512:float32"],
    "local_gather": ["128x512:float32"],
    "iota": [],
}


@nki.jit
def dma_copy(x):
    """A copy of x in two tiles of 128 rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[0] // 128):
        rows = slice(128 * i, 128 * i + 128)
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[rows])
        nisa.dma_copy(dst=out[rows], src=tile)
    return out


@nki.jit
def dma_compute(x, y):
    """x + y, computed by the DMA engines."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[x, y], reduce_op=nl.add)
    return out


@nki.jit
def dma_transpose(x):
    """x transposed on its way from HBM to SBUF."""
    tile = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=tile, src=x)
    out = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def tensor_copy(x):
    """x rounded to bfloat16."""
    tile = nl.load(x)
    rounded = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_copy(dst=rounded, src=tile)
    out = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(out, rounded)
    return out


@nki.jit
def memset():
    """A tile of ones."""
    ones = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    out = nl.ndarray(ones.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, ones)
    return out


@nki.jit
def nc_transpose(x):
    """x transposed by the Tensor engine, through PSUM."""
    tile = nl.load(x)
    turned = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    result = nl.ndarray(turned.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=turned)
    out = nl.ndarray(turned.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


@nki.jit
def nc_stream_shuffle(x):
    """The partitions of each quadrant of 32 in reverse order."""
    tile = nl.load(x)
    reversed_ = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_stream_shuffle(dst=reversed_, src=tile, shuffle_mask=list(range(31, -1, -1)))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, reversed_)
    return out


@nki.jit
def nc_n_gather(x):
    """Every second element of each row, by indices."""
    tile = nl.load(x)
    index = nl.ndarray((x.shape[0], x.shape[1] // 2), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.iota(dst=index, pattern=[[2, x.shape[1] // 2]])
    gathered = nl.ndarray(index.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_n_gather(dst=gathered, data=tile, indices=index)
    out = nl.ndarray(index.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, gathered)
    return out


@nki.jit
def local_gather(x):
    """Columns 0 to 15 of each row: each group of 16 partitions shares one list of indices."""
    tile = nl.load(x)
    index = nl.ndarray((x.shape[0], 1), dtype=nl.uint16, buffer=nl.sbuf)
    nisa.iota(dst=index, pattern=[[0, 1]], channel_multiplier=1)
    nisa.tensor_scalar(dst=index, data=index, op0=nl.bitwise_and, operand0=15)
    gathered = nl.ndarray((x.shape[0], 16), dtype=x.dtype, buffer=nl.sbuf)
    nisa.local_gather(dst=gathered, src_buffer=tile, index=index)
    out = nl.ndarray(gathered.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, gathered)
    return out


@nki.jit
def iota():
    """Element (p, i) is 100 p + i."""
    numbers = nl.ndarray((128, 100), dtype=nl.int32, buffer=nl.sbuf)
    nisa.iota(dst=numbers, pattern=[[1, 100]], channel_multiplier=100)
    out = nl.ndarray(numbers.shape, dtype=nl.int32, buffer=nl.shared_hbm)
    nl.store(out, numbers)
    return out
