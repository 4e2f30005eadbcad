"""Kernels with a planted loss, written by an author who had not seen the others.

The line that loses ends with ``# loss``; ``ARGUMENTS`` has the arguments, ``CAUSES`` the cause that is to be named.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import hbm, ps, sb

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(5)
ARGUMENTS = {}
CAUSES = {}


def n(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def case(cause, *arrays):
    def enter(function):
        kernel = nki.jit(function)
        ARGUMENTS[kernel], CAUSES[kernel] = arrays, cause
        return kernel

    return enter


@case("overflow", (np.abs(n(128, 4096)) * 100).astype(np.float16))
def mean_fp16_overflow(x):
    out = hbm((128, 1))
    t = nl.load(x)
    s = sb((128, 1), nl.float16)
    nisa.tensor_reduce(s, nl.add, t, axis=1)  # loss
    m = sb((128, 1))
    nisa.tensor_scalar(m, s, nl.multiply, 1 / 4096)
    nl.store(out, m)
    return out


@case("underflow", n(128, 256) * 1e-5)
def divide_by_tiny(x):
    """x / sqrt(x^2+...) with square in fp16"""
    out = hbm(x.shape)
    t = nl.load(x)
    sq = sb(t.shape, nl.float16)
    nisa.tensor_tensor(sq, t, t, nl.multiply)  # loss
    s = sb((128, 1))
    nisa.tensor_reduce(s, nl.add, sq, axis=1)
    r = sb((128, 1))
    nisa.tensor_scalar(r, s, nl.add, 1e-30, op1=nl.power, operand1=-0.5)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.multiply, r)
    nl.store(out, o)
    return out


@case("cast", np.abs(n(128, 256)) * 3e-5)
def subnormal_fp16(x):
    out = hbm(x.shape)
    t = nl.load(x)
    h = sb(t.shape, nl.float16)
    nisa.tensor_scalar(h, t, nl.multiply, 0.01)  # loss
    o = sb(t.shape)
    nisa.tensor_scalar(o, h, nl.multiply, 1e6)
    nl.store(out, o)
    return out


@case("cancellation", np.abs(n(128, 2048)) + 10)
def running_sums_difference(x):
    """window sums by differences of prefix sums."""
    out = hbm((128, 2040))
    t = nl.load(x)
    ones = sb(t.shape)
    nisa.memset(ones, 1.0)
    c = sb(t.shape)
    nisa.tensor_tensor_scan(c, ones, t, 0.0, nl.multiply, nl.add)
    o = sb((128, 2040))
    nisa.tensor_tensor(o, c[:, 8:2048], c[:, 0:2040], nl.subtract)  # loss
    nl.store(out, o)
    return out


@case("absorption", np.abs(n(128, 256)) * 1e-6)
def log_one_plus(x):
    out = hbm(x.shape)
    t = nl.load(x)
    y = nl.add(t, 1.0)  # loss
    logs = nl.log(y)
    nl.store(out, logs)
    return out


@case("cast", n(128, 512))
def int8_rounding(x):
    out = hbm(x.shape)
    t = nl.load(x)
    q = sb(t.shape, nl.int8)
    nisa.tensor_scalar(q, t, nl.multiply, 20.0)  # loss
    o = sb(t.shape)
    nisa.tensor_scalar(o, q, nl.multiply, 0.05)
    nl.store(out, o)
    return out


@case("cast", n(512, 128), n(512, 256))
def bf16_between_k(a, b):
    out = hbm((128, 256))
    acc = sb((128, 256), nl.bfloat16)
    nisa.memset(acc, 0.0)
    for k in range(4):
        at = nl.load(a[k * 128 : (k + 1) * 128, :])
        bt = nl.load(b[k * 128 : (k + 1) * 128, :])
        p = ps((128, 256))
        nisa.nc_matmul(p, at, bt)
        nisa.tensor_tensor(acc, acc, p, nl.add)  # loss
    o = sb((128, 256))
    nisa.tensor_copy(o, acc)
    nl.store(out, o)
    return out


@case("cast", np.abs(n(128, 512)) + 0.1)
def reciprocal_bf16(x):
    out = hbm(x.shape)
    t = nl.load(x)
    d = nl.sum(t, axis=1)
    r = nl.reciprocal(d, dtype=nl.bfloat16)  # loss
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.multiply, nl.copy(r, dtype=nl.float32))
    nl.store(out, o)
    return out


@case("cancellation", np.abs(n(128, 256)) * 1e-4 + 1e-4)
def one_minus_cos(x):
    out = hbm(x.shape)
    t = nl.load(x)
    c = nl.cos(t)
    o = sb(t.shape)
    nisa.tensor_scalar(o, c, nl.subtract, 1.0, reverse0=True)  # loss
    nl.store(out, o)
    return out


@case("cast", n(128, 512) + 100)
def centred_from_bf16(x):
    out = hbm(x.shape)
    t = nl.load(x, dtype=nl.bfloat16)  # loss
    m = nl.mean(t, axis=1, dtype=nl.float32)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.subtract, m)
    nl.store(out, o)
    return out


@case("cancellation", np.abs(n(128, 128)) + 1, np.float32(1e-6) * np.abs(n(128, 128)))
def sqrt_difference(x, d):
    """sqrt(x+d) - sqrt(x)."""
    out = hbm(x.shape)
    a = nl.load(x)
    b = nl.add(a, nl.load(d))
    ra = nl.sqrt(a)
    rb = nl.sqrt(b)
    o = nl.subtract(rb, ra)  # loss
    nl.store(out, o)
    return out


@case("cast", np.abs(n(128, 64)) * 0.01, n(128, 64))
def decay_bf16(decay, x):
    """scan with decays near one in bf16"""
    out = hbm(x.shape)
    d = nl.load(decay)
    e = sb((128, 64), nl.bfloat16)
    nisa.activation(e, nl.exp, d, scale=-1.0)  # loss
    ef = nl.copy(e, dtype=nl.float32)
    t = nl.load(x)
    h = sb((128, 64))
    nisa.tensor_tensor_scan(h, ef, t, 0.0, nl.multiply, nl.add)
    nl.store(out, h)
    return out


@case("cast", np.abs(n(128, 256)) + 0.5)
def bf16_scan_state(x):
    """state of a scan kept in bf16 between chunks."""
    out = hbm(x.shape)
    state = sb((128, 1), nl.bfloat16)
    nisa.memset(state, 0.0)
    ones = sb((128, 32))
    nisa.memset(ones, 1.0)
    for i in range(8):
        t = nl.load(x[:, i * 32 : (i + 1) * 32])
        c = sb((128, 32))
        nisa.tensor_tensor_scan(c, ones, t, state, nl.multiply, nl.add)
        nisa.tensor_copy(state, c[:, 31:32])  # loss
        nl.store(out[:, i * 32 : (i + 1) * 32], c)
    return out


@case("cancellation", n(128, 64) + 50, n(128, 64) + 50)
def distance_by_norms(a, b):
    """|a|^2 - 2ab + |b|^2."""
    out = hbm((128, 1))
    x, y = nl.load(a), nl.load(b)
    aa = nl.sum(nl.multiply(x, x), axis=1)
    bb = nl.sum(nl.multiply(y, y), axis=1)
    ab = nl.sum(nl.multiply(x, y), axis=1)
    s = nl.add(aa, bb)
    ab2 = nl.multiply(ab, 2.0)
    d = nl.subtract(s, ab2)  # loss
    nl.store(out, d)
    return out


@case("cast", n(64, 128), n(64, 128))
def matmul_output_bf16_then_residual(a, b):
    out = hbm((128, 128))
    at, bt = nl.load(a), nl.load(b)
    p = ps((128, 128))
    nisa.nc_matmul(p, at, bt)
    y = sb((128, 128), nl.bfloat16)
    nisa.activation(y, nl.gelu, p)  # loss
    scratch = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.private_hbm)
    nisa.dma_copy(scratch, y)
    z = nl.load(scratch)
    m = nl.max(z, axis=1, dtype=nl.float32)
    o = sb((128, 128))
    nisa.tensor_scalar(o, z, nl.subtract, m)
    nl.store(out, o)
    return out


@case("overflow", n(128, 256) * 60)
def softplus_naive(x):
    out = hbm(x.shape)
    t = nl.load(x)
    e = nl.exp(t)  # loss
    p = nl.add(e, 1.0)
    nl.store(out, nl.log(p))
    return out


@case("underflow", np.abs(n(128, 256)) + 0.01)
def geometric_mean(x):
    out = hbm((128, 1))
    t = nl.load(x)
    small = nl.multiply(t, 0.1)
    p = nl.prod(small, axis=1)  # loss
    nl.store(out, nl.sqrt(p))
    return out


@case("cast", n(128, 512))
def scratch_in_bf16(x):
    out = hbm(x.shape)
    scratch = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.private_hbm)
    t = nl.load(x)
    y = nl.gelu(t)
    nl.store(scratch, y)  # loss
    z = nl.load(scratch, dtype=nl.float32)
    s = nl.sum(z, axis=1)
    r = sb(t.shape)
    nisa.tensor_scalar(r, z, nl.subtract, s)
    nl.store(out, r)
    return out


@case("cast", np.full((128, 64), 0.0, np.float32) + np.abs(n(128, 64)).astype(np.float32) * 1e-3)
def eps_lost_in_fp16(x):
    out = hbm(x.shape)
    t = nl.load(x)
    h = sb(t.shape, nl.float16)
    nisa.tensor_tensor(h, t, t, nl.multiply)  # loss
    e = sb(t.shape)
    nisa.tensor_scalar(e, h, nl.add, 1e-12)
    r = sb(t.shape)
    nisa.activation(r, nl.rsqrt, e)
    o = sb(t.shape)
    nisa.tensor_tensor(o, t, r, nl.multiply)
    nl.store(out, o)
    return out


@case("overflow", (n(128, 256) * 30).astype(np.float16))
def cube_overflow_fp16(x):
    out = hbm(x.shape)
    t = nl.load(x)
    sq = nl.multiply(t, t)
    cu = nl.multiply(sq, t)  # loss
    th = sb(t.shape)
    nisa.tensor_scalar(th, cu, nl.multiply, 0.0447)
    o = sb(t.shape)
    nisa.tensor_tensor(o, th, t, nl.add)
    nl.store(out, o)
    return out


@case("cast", n(128, 512) * 2)
def max_subtracted_in_bf16(x):
    out = hbm(x.shape)
    t = nl.load(x)
    m = sb((128, 1))
    nisa.tensor_reduce(m, nl.maximum, t, axis=1)
    d = sb(t.shape, nl.bfloat16)
    nisa.tensor_scalar(d, t, nl.subtract, m)  # loss
    e = sb(t.shape)
    s = sb((128, 1))
    nisa.activation_reduce(e, nl.exp, d, reduce_op=nl.add, reduce_res=s)
    r = nl.reciprocal(s)
    nisa.tensor_scalar(e, e, nl.multiply, r)
    nl.store(out, e)
    return out


@case("cast", n(128, 512))
def int8_quantised_with_scale(x):
    out = hbm(x.shape)
    t = nl.load(x)
    am = sb((128, 1))
    nisa.tensor_reduce(am, nl.maximum, nl.abs(t), axis=1)
    inv = nl.reciprocal(am)
    qs = sb((128, 1))
    nisa.tensor_scalar(qs, inv, nl.multiply, 127.0)
    q = sb(t.shape, nl.int8)
    nisa.tensor_scalar(q, t, nl.multiply, qs)  # loss
    f = sb(t.shape)
    nisa.tensor_scalar(f, q, nl.multiply, am, op1=nl.multiply, operand1=1.0 / 127)
    nl.store(out, f)
    return out


@case("cast", n(128, 512))
def count_in_bf16(x):
    """mean with the count kept in bf16 (1/513 rounded)."""
    out = hbm((128, 1))
    t = nl.load(x)
    s = sb((128, 1))
    nisa.tensor_reduce(s, nl.add, t, axis=1)
    c = sb((128, 1), nl.bfloat16)
    nisa.memset(c, 1.0 / 511)  # loss
    cf = sb((128, 1))
    nisa.tensor_copy(cf, c)
    o = sb((128, 1))
    nisa.tensor_tensor(o, s, cf, nl.multiply)
    nl.store(out, o)
    return out


@case("overflow", (np.abs(n(128, 512)) * 300).astype(np.float32))
def rms_fp16(x):
    out = hbm(x.shape)
    t = nl.load(x)
    sq = sb(t.shape, nl.float16)
    nisa.activation(sq, nl.square, t)  # loss
    s = sb((128, 1))
    nisa.tensor_reduce(s, nl.add, sq, axis=1)
    r = sb((128, 1))
    nisa.activation(r, nl.rsqrt, s, scale=1 / 512)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.multiply, r)
    nl.store(out, o)
    return out


@case("overflow", np.abs(n(128, 64)) + 90)
def exp_ratio(x):
    """exp(a)/exp(b) = exp(a-b)"""
    out = hbm(x.shape)
    t = nl.load(x)
    a = nl.exp(t)  # loss
    b = nl.exp(nl.multiply(t, 0.99))
    o = nl.multiply(a, nl.reciprocal(b))
    nl.store(out, o)
    return out


@case("underflow", n(128, 64) * 0.1 - 200)
def entropy(x):
    """log of probabilities that underflow."""
    out = hbm(x.shape)
    t = nl.load(x)
    p = sb(t.shape)
    nisa.activation(p, nl.exp, t, scale=0.6)  # loss
    logs = sb(t.shape)
    nisa.activation(logs, nl.log, p)
    nl.store(out, logs)
    return out


@case("cast", n(128, 256))
def gelu_in_parts(x):
    out = hbm(x.shape)
    t = nl.load(x)
    x3 = nl.multiply(nl.multiply(t, t), t)
    inner = sb(t.shape)
    nisa.scalar_tensor_tensor(inner, x3, nl.multiply, 0.044715, nl.add, t)
    th = sb(t.shape, nl.bfloat16)
    nisa.activation(th, nl.tanh, inner, scale=0.7978845608)  # loss
    o = sb(t.shape)
    nisa.scalar_tensor_tensor(o, th, nl.add, 1.0, nl.multiply, t)
    nl.store(out, o)
    return out


@case("cast", n(128, 512).astype(BF16))
def variance_bf16_sum(x):
    """bf16 input and output; the sum of squares in bf16"""
    out = hbm(x.shape, nl.bfloat16)
    t = nl.load(x)
    acc = sb((128, 1), nl.bfloat16)
    nisa.memset(acc, 0.0)
    for i in range(16):
        sq = sb((128, 32))
        s = sb((128, 1))
        nisa.activation_reduce(sq, nl.square, t[:, i * 32 : (i + 1) * 32], reduce_op=nl.add, reduce_res=s)
        nisa.tensor_tensor(acc, acc, s, nl.add)  # loss
    r = sb((128, 1))
    nisa.activation(r, nl.rsqrt, acc, scale=1 / 512)
    o = sb(t.shape, nl.bfloat16)
    nisa.tensor_scalar(o, t, nl.multiply, r)
    nl.store(out, o)
    return out


@case("long sum", np.full((128, 8192), 0.1, np.float32))
def long_sum_equal(x):
    out = hbm((128, 1))
    t = nl.load(x)
    s = sb((128, 1))
    nisa.tensor_reduce(s, nl.add, t, axis=1)  # loss
    nl.store(out, s)
    return out


@case("rounding", np.full((128, 4096), 0.1, np.float32))
def many_additions(x):
    """one column at a time into a float32 accumulator"""
    out = hbm((128, 1))
    t = nl.load(x)
    acc = sb((128, 1))
    nisa.memset(acc, 0.0)
    for i in range(600):
        nisa.tensor_tensor(acc, acc, t[:, i : i + 1], nl.add)  # loss
    nl.store(out, acc)
    return out


@case("cancellation", n(128, 64) * 0.01)
def mish_tail(x):
    out = hbm(x.shape)
    t = nl.load(x)
    a = nl.cos(t)
    b = nl.square(a)
    o = nl.subtract(nl.full(t.shape, 1.0, dtype=nl.float32), b)  # loss
    nl.store(out, o)
    return out
