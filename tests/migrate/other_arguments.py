"""Kernels of Beta 1 that are launched with several shapes, dtypes and numbers; test_other_arguments.py runs them."""

import math

import numpy as np

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


def turned(t):
    return nl.copy(nisa.nc_transpose(t))


@nki.jit
def transposed_by_a_helper(x):
    out = nl.ndarray((x.shape[1], x.shape[0]), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, turned(nl.load(x)))
    return out


@nki.jit
def tail_rows(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(columns)[None, :]
    for k in nl.affine_range(math.ceil(rows / 128)):
        t = nl.load(x[k * 128 + i_p, i_f], mask=k * 128 + i_p < rows)
        largest = nl.max(t, axis=1)
        nl.store(out[k * 128 + i_p, i_f], t - largest, mask=k * 128 + i_p < rows)
    return out


@nki.jit
def free_corner(x, rows, first):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:128, 0:64]
    t = nl.zeros((128, 64), dtype=x.dtype)
    t[i_p, i_f] = nl.load(x[i_p, i_f], mask=(i_p < rows) & (i_f >= first))
    nl.store(out[i_p, i_f], t)
    return out


@nki.jit
def sum_of_two(x, y):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    a = nl.load(x)
    b = nl.load(y)
    s = nisa.tensor_tensor(a, b, np.add)
    nl.store(out, s)
    return out


@nki.jit
def steps_of_the_shape(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    for k in nl.static_range(x.shape[1] // 16):
        t[:, k * 16 : k * 16 + 16] = nl.multiply(t[:, k * 16 : k * 16 + 16], float(k + 1))
    nl.store(out, t)
    return out


@nki.jit
def mask_that_may_be_none(x):
    def doubled(t, mask=None):
        return nisa.tensor_scalar(t, np.multiply, 2.0, mask=mask)

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, doubled(nl.load(x)))
    return out


@nki.jit
def backwards(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:rows, 0:columns]
    t = nl.load(x[i_p, i_f])
    u = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    u[i_p, i_f] = nl.copy(t[i_p, columns - 1 - i_f])
    nl.store(out[i_p, i_f], u)
    return out


@nki.jit
def chosen_half(x, half):
    out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(32)[None, :]
    columns = i_f
    if half == 1:
        columns = i_f + 32
    elif half == 2:
        columns = 2 * i_f
    shifted = columns + 0
    t = nl.load(x[i_p, shifted])
    nl.store(out[i_p, i_f], t)
    return out


@nki.jit
def index_named_twice(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(64)[:, None]
    i_f = nl.arange(x.shape[1])[None, :]
    t = nl.load(x[i_p, i_f])
    for k in nl.affine_range(x.shape[1] // 16):
        i_f = nl.arange(16)[None, :]
        nl.store(out[i_p, k * 16 + i_f], nl.multiply(t[i_p, k * 16 + i_f], 2.0))
    return out


@nki.jit
def index_that_rounds_change(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(64)[:, None]
    i_f = nl.arange(16)[None, :]
    for _ in nl.static_range(x.shape[1] // 16):
        nl.store(out[i_p, i_f], nl.load(x[i_p, i_f]))
        i_f = i_f + 16
    return out


@nki.jit
def branch_whose_test_changes(x, n):
    out = nl.ndarray((128, 32), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(32)[None, :]
    if n > 3:
        i_f = 32 + nl.arange(32)[None, :]
    n = n - 10
    t = nl.load(x[i_p, i_f])
    nl.store(out, t)
    return out
