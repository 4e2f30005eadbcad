"""Reductions, statistics, scans and searches."""

import nki
import nki.isa as nisa
import nki.language as nl

ARGUMENTS = {
    "activation_reduce": ["128x512:float32"],
    "tensor_reduce": ["128x512:float32"],
    "tensor_partition_reduce": ["128x512:float32"],
    "tensor_scalar_reduce": ["128x512:float32"],
    "tensor_scalar_cumulative": ["128x512:float32"],
    "tensor_tensor_scan": ["128x512:float32", "128x512:float32"],
    "select_reduce": ["128x512:float32", "128x512:float32"],
    "range_select": ["128x512:float32"],
    "bn_stats": ["128x512:float32"],
    "bn_aggr": ["128x1024:float32"],
    "max8": ["128x512:float32"],
    "nc_find_index8": ["128x512:float32"],
    "nc_match_replace8": ["128x512:float32"],
}


@nki.jit
def activation_reduce(x):
    """exp(x) and its sum along each row."""
    tile = nl.load(x)
    powers = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=powers, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=total)
    out = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.shared_hbm)
    nl.store(out, total)
    return out


@nki.jit
def tensor_reduce(x):
    """The maximum of each row."""
    tile = nl.load(x)
    largest = nl.ndarray((x.shape[0], 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=1)
    out = nl.ndarray(largest.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, largest)
    return out


@nki.jit
def tensor_partition_reduce(x):
    """The sum over all partitions."""
    tile = nl.load(x)
    total = nl.ndarray((1, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=total, op=nl.add, data=tile)
    out = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.shared_hbm)
    nl.store(out, total)
    return out


@nki.jit
def tensor_scalar_reduce(x):
    """2 x, and the sum of these products along each row."""
    tile = nl.load(x)
    doubled = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar_reduce(dst=doubled, data=tile, op0=nl.multiply, operand0=2.0, reduce_op=nl.add, reduce_res=total)
    out = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.shared_hbm)
    nl.store(out, total)
    return out


@nki.jit
def tensor_scalar_cumulative(x):
    """Running sums of 2 x along each row."""
    tile = nl.load(x)
    running = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar_cumulative(dst=running, src=tile, op0=nl.multiply, op1=nl.add, imm0=2.0)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, running)
    return out


@nki.jit
def tensor_tensor_scan(decay, x):
    """A linear recurrence along each row: state = decay[i] * state + x[i]."""
    factor, tile = nl.load(decay), nl.load(x)
    states = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor_scan(dst=states, data0=factor, data1=tile, initial=0.0, op0=nl.multiply, op1=nl.add)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, states)
    return out


@nki.jit
def select_reduce(x, mask):
    """x where mask is positive, -1000 elsewhere, and the maximum of each row."""
    tile, weights = nl.load(x), nl.load(mask)
    chosen = nl.ndarray(x.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=chosen, data=weights, op0=nl.greater, operand0=0.0)
    masked = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    largest = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.select_reduce(
        dst=masked,
        predicate=chosen,
        on_true=tile,
        on_false=-1000.0,
        reduce_res=largest,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    out = nl.ndarray(largest.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, largest)
    return out


@nki.jit
def range_select(x):
    """Columns 10 to 19 of x, the smallest float32 elsewhere."""
    tile = nl.load(x)
    low = nl.full((x.shape[0], 1), 10.0, dtype=nl.float32)
    high = nl.full((x.shape[0], 1), 20.0, dtype=nl.float32)
    largest = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    window = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.range_select(
        dst=window,
        on_true_tile=tile,
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=low,
        bound1=high,
        reduce_res=largest,
    )
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, window)
    return out


@nki.jit
def bn_stats(x):
    """Count, mean and count times variance of even and odd columns."""
    tile = nl.load(x)
    stats = nl.ndarray((x.shape[0], 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=stats, data=tile)
    out = nl.ndarray(stats.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, stats)
    return out


@nki.jit
def bn_aggr(x):
    """Mean and variance of each row, in pieces of 512 columns."""
    tile = nl.load(x)
    pieces = x.shape[1] // 512
    stats = nl.ndarray((x.shape[0], 6 * pieces), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(pieces):
        nisa.bn_stats(dst=stats[:, 6 * i : 6 * i + 6], data=tile[:, 512 * i : 512 * i + 512])
    moments = nl.ndarray((x.shape[0], 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=moments, data=stats)
    out = nl.ndarray(moments.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, moments)
    return out


@nki.jit
def max8(x):
    """The eight largest elements of each row."""
    tile = nl.load(x)
    largest = nl.ndarray((x.shape[0], 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.max8(dst=largest, src=tile)
    out = nl.ndarray(largest.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, largest)
    return out


@nki.jit
def nc_find_index8(x):
    """The columns of the eight largest elements of each row."""
    tile = nl.load(x)
    largest = nl.ndarray((x.shape[0], 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.max8(dst=largest, src=tile)
    columns = nl.ndarray((x.shape[0], 8), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.nc_find_index8(dst=columns, data=tile, vals=largest)
    out = nl.ndarray(columns.shape, dtype=nl.uint32, buffer=nl.shared_hbm)
    nl.store(out, columns)
    return out


@nki.jit
def nc_match_replace8(x):
    """x without the eight largest elements of each row: the next call of max8 finds the following eight."""
    tile = nl.load(x)
    largest = nl.ndarray((x.shape[0], 8), dtype=x.dtype, buffer=nl.sbuf)
    nisa.max8(dst=largest, src=tile)
    rest = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_match_replace8(dst=rest, data=tile, vals=largest, imm=-1e30)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, rest)
    return out
