"""Kernels of Beta 1 that could be migrated wrongly without a sign; tests/migrate/test_verdict.py runs them."""

import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def old_tile_keeps_its_name(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:64])
    u = t
    t = nisa.tensor_scalar(t, np.add, 1.0)
    t = nisa.activation(np.exp, t)
    nl.store(out, nl.subtract(t, u))
    return out


@nki.jit
def running_maximum(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    m = nl.full((128, 1), -1e9, dtype=nl.float32)
    for k in nl.sequential_range(4):
        t = nl.load(x[0:128, k * 16 : (k + 1) * 16])
        r = nisa.tensor_reduce(np.max, t, axis=[1])
        m[...] = nl.maximum(m, r)
    t = nl.load(x[0:128, 0:64])
    nl.store(out, t - m)
    return out


@nki.jit
def promoted_dtypes(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:64], dtype=nl.bfloat16)
    s = nl.load(x[0:128, 0:64])
    u = nl.add(t, s)
    v = nl.multiply(t, t)
    nl.store(out, nl.add(u, v))
    return out


@nki.jit
def mask_that_clips(x):
    out = nl.ndarray((100, 60), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(64)[:, None]
    i_f = nl.arange(64)[None, :]
    for k in nl.affine_range(2):
        m = (k * 64 + i_p < 100) & (i_f < 60)
        t = nl.load(x[k * 64 + i_p, i_f], mask=m)
        u = nl.exp(t, mask=m)
        s = nl.sum(u, axis=[1], mask=m)
        nl.store(out[k * 64 + i_p, i_f], u / s, mask=m)
    return out


@nki.jit
def masked_load_into_a_filled_tile(x):
    out = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    t = nl.full((128, 64), -3.0, dtype=x.dtype)
    t[i_p, i_f] = nl.load(x[i_p, i_f], mask=i_f < 10)
    nl.store(out, nl.max(t, axis=[1]))
    return out


@nki.jit
def number_that_a_round_changes(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    c = 1.0
    for k in nl.affine_range(4):
        c = c * 2.0
        t = nl.load(x[0:128, k * 16 : (k + 1) * 16])
        nl.store(out[0:128, k * 16 : (k + 1) * 16], nl.multiply(t, c))
    return out


@nki.jit
def whole_division(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:64])
    i = nl.copy(t * 10.0, dtype=nl.int32)
    d = i // 3
    nl.store(out, nl.copy(d, dtype=nl.float32))
    return out


@nki.jit
def overlapping_update(x):
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[i_p, i_f])
    t[i_p, 1 + nl.arange(63)[None, :]] = nl.copy(t[i_p, nl.arange(63)[None, :]])
    t[:, 0:32] += t[:, 32:64]
    nl.store(out, t)
    return out


@nki.jit
def sum_of_two_loops(x):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:64])
    acc = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.psum)
    for _ in nl.affine_range(3):
        acc += nl.matmul(t, t, transpose_x=True)
    acc += nl.matmul(t, t, transpose_x=True)
    s = nl.copy(acc)
    nl.store(out, s)
    return out


@nki.jit
def product_added_in_sbuf(x):
    out = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:64])
    acc = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    for _ in nl.affine_range(3):
        p = nl.matmul(t, t, transpose_x=True)
        acc += p
    nl.store(out, acc)
    return out


@nki.jit
def column_and_row(x, v):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:64])
    c = nl.load(v[0:128])
    r = nl.load(v.reshape((1, 128))[0:1, 0:64])
    u = nl.add(t, c)
    w = nl.multiply(u, r.broadcast_to((128, 64)))
    nl.store(out, w)
    return out


@nki.jit
def second_store_below_a_mask(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    t = nl.load(x[i_p, i_f])
    nl.store(out[i_p, i_f], t)
    nl.store(out[i_p, i_f], t * 2.0, mask=(i_p < 50) & (i_f > 3))
    return out


@nki.jit
def declared_outside_bound_inside(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.zeros((128, 64), dtype=x.dtype)
    for _ in nl.affine_range(2):
        t = nl.load(x[0:128, 0:64])
        nl.store(out, t)
    return out


@nki.jit
def comparison_as_number(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:64])
    u = nl.where(t > 0, t, t * 0.1)
    w = (u >= 0.5) + u
    nl.store(out, w)
    return out


@nki.jit
def backward_rows(x):
    out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(32)[None, :]
    t = nl.load(x[i_p, 2 * i_f + 1])
    nl.store(out[127 - i_p, i_f], t)
    return out


@nki.jit
def rows_below_a_mask(x):
    out = nl.ndarray((64, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    t = nl.load(x[i_p, i_f])
    tt = nl.copy(nl.transpose(t))
    j_p = nl.arange(64)[:, None]
    j_f = nl.arange(128)[None, :]
    z = nl.zeros((64, 128), dtype=x.dtype)
    z[j_p, j_f] = nl.copy(tt[j_p, j_f], mask=(j_f < 77) & (j_p >= 5))
    nl.store(out[j_p, j_f], z)
    return out


@nki.jit
def masked_accumulator(x):
    out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    t = nl.load(x[i_p, i_f])
    s = nl.zeros((128, 1), dtype=nl.float32)
    nisa.activation_reduce(np.exp, t[i_p, i_f], reduce_op=np.add, reduce_res=s, mask=i_f < 20)
    nl.store(out, s)
    return out


@nki.jit
def number_of_an_inner_round(x):
    out = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    width = 32
    for a in nl.affine_range(2):
        for b in nl.affine_range(2):
            t = nl.load(x[0:128, a * 32 + b * 16 : a * 32 + b * 16 + 16]) * float(width)
            width = width // 2
            nl.store(out[0:128, a * 32 + b * 16 : a * 32 + b * 16 + 16], t * float(width))
    return out


@nki.jit
def triangle_over_old_numbers(x):
    out = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(64)[:, None]
    i_f = nl.arange(64)[None, :]
    t = nl.load(x[i_p, i_f])
    u = nl.multiply(t, 3.0)
    u[i_p, i_f] = nl.exp(t, mask=(i_p > i_f) & (i_f < 40))
    nl.store(out[i_p, i_f], u)
    return out


@nki.jit
def half_precision_column(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x[0:128, 0:64], dtype=nl.bfloat16)
    c = nl.load(x[0:128, 0:1], dtype=nl.bfloat16)
    nl.store(out, nisa.tensor_tensor(c, t, np.subtract, dtype=nl.float32))
    return out


@nki.jit
def columns_without_a_name(x):
    """``_`` is the number of columns, and then something else."""
    rows, _ = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    turned = nl.ndarray((rows, 64), dtype=x.dtype)
    i_p, i_a, i_b = nl.arange(rows)[:, None, None], nl.arange(16)[None, :, None], nl.arange(4)[None, None, :]
    for _ in range(3):
        turned[i_p, i_b * 16 + i_a] = nl.copy(tile[i_p, i_a * 4 + i_b])
    nl.store(out, turned)
    return out
