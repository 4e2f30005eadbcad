"""Matrix products of the Tensor engine."""

import nki
import nki.isa as nisa
import nki.language as nl

ARGUMENTS = {
    "nc_matmul": ["256x128:bfloat16", "256x512:bfloat16"],
    "nc_matmul_mx": ["128x128:bfloat16", "128x512:bfloat16"],
}


@nki.jit
def nc_matmul(a, b):
    """a.T @ b, accumulated in PSUM over pieces of 128 rows."""
    columns, width = a.shape[1], b.shape[1]
    total = nl.ndarray((columns, width), dtype=nl.float32, buffer=nl.psum)
    for i in range(a.shape[0] // 128):
        rows = slice(128 * i, 128 * i + 128)
        nisa.nc_matmul(dst=total, stationary=nl.load(a[rows]), moving=nl.load(b[rows]), accumulate=i > 0)
    result = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


def quantized(x):
    """x in MXFP8, with its scales."""
    tile = nl.load(x)
    packed = nl.ndarray((x.shape[0], x.shape[1] // 4), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scale = nl.ndarray(packed.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=tile, dst_scale=scale)
    return packed, scale


@nki.jit
def nc_matmul_mx(a, b):
    """The product of two tiles in MXFP8; each packed element holds four numbers of the contracted dimension."""
    left, left_scale = quantized(a)
    right, right_scale = quantized(b)
    total = nl.ndarray((left.shape[1], right.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(dst=total, stationary=left, moving=right, stationary_scale=left_scale, moving_scale=right_scale)
    result = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out
