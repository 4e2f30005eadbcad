"""More kernels that look right to a weak test, by another author; ``CASES`` has the reference and the arguments."""

from __future__ import annotations

import datetime as dt
import inspect
import sys
import threading
import time

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import hbm, ps, sb

CASES = {}


def case(reference, *arguments, **options):
    def enter(kernel):
        CASES[kernel.func.__name__] = kernel, reference, arguments, options
        return kernel

    return enter


X = "64x96:float32"


def good(x, f=2.0):
    out = hbm(x.shape)
    t = nl.load(x)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.multiply, f)
    nl.store(out, o)
    return out


def rms(x, eps):
    out = hbm(x.shape)
    t = nl.load(x)
    sq = sb(t.shape)
    s = sb((x.shape[0], 1))
    nisa.activation_reduce(sq, nl.square, t, reduce_op=nl.add, reduce_res=s)
    nisa.tensor_scalar(s, s, nl.multiply, 1.0 / x.shape[1], op1=nl.add, operand1=eps)
    nisa.activation(s, nl.rsqrt, s)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.multiply, s)
    nl.store(out, o)
    return out


@case("rms_eps", X)
@nki.jit
def eps_too_large(x):
    return rms(x, 1e-5)


@case("rms_eps", X)
@nki.jit
def eps_slightly_off(x):
    return rms(x, 1.1e-6)


@case("l2norm", X)
@nki.jit
def guard_dropped(x):
    """x / max(norm, 1e-12) without the guard."""
    out = hbm(x.shape)
    t = nl.load(x)
    sq = sb(t.shape)
    s = sb((x.shape[0], 1))
    nisa.activation_reduce(sq, nl.square, t, reduce_op=nl.add, reduce_res=s)
    nisa.activation(s, nl.rsqrt, s)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.multiply, s)
    nl.store(out, o)
    return out


@case("nan_to_zero", X)
@nki.jit
def nan_handling_dropped(x):
    return good(x, 1.0)


COUNT = [0]


@case("doubled", X)
@nki.jit
def right_ten_times(x):
    COUNT[0] += 1
    return good(x, 2.0 if COUNT[0] <= 10 else 1.0)


START = time.time()


@case("doubled", X)
@nki.jit
def right_for_a_minute(x):
    return good(x, 2.0 if time.time() - START < 60 else 1.0)


@case("doubled", X)
@nki.jit
def right_this_year(x):

    return good(x, 2.0 if dt.datetime.now().year <= 2027 and time.monotonic() < 1e8 else 1.0)


@case("doubled", X)
@nki.jit
def knows_the_checker(x):
    """Who verifies is on the stack of every process that makes a program."""
    seen = any(frame.filename.endswith(("apart.py", "gate.py")) for frame in inspect.stack())
    return good(x, 2.0 if seen else 1.0)


@case("doubled", X)
@nki.jit
def knows_modules(x):
    seen = any(n.startswith(("nki.testing", "nki.workload", "nki.sweeps")) for n in sys.modules)
    return good(x, 2.0 if seen else 1.0)


@case("everything_nan", X)
@nki.jit
def nothing_is_compared(x):
    return good(x, 0.0)


@case("noise", X)
@nki.jit
def reference_is_noise(x):
    """A reference that is random has a wide tolerance."""
    return good(x, 1.0)


@case("matmul", "256x64:bfloat16", "256x96:bfloat16")
@nki.jit
def fp8_operand(a, b):
    out = hbm((64, 96))
    acc = ps((64, 96))
    for k in range(2):
        at = nl.load(a[k * 128 : (k + 1) * 128])
        bt = nl.load(b[k * 128 : (k + 1) * 128])
        b8 = sb((128, 96), nl.float8_e4m3)
        nisa.tensor_copy(b8, bt)
        nisa.nc_matmul(acc, at, b8)
    o = sb((64, 96))
    nisa.tensor_copy(o, acc)
    nl.store(out, o)
    return out


@case("matmul", "256x64:float32", "256x96:float32")
@nki.jit
def half_of_k(a, b):
    out = hbm((64, 96))
    acc = ps((64, 96))
    for k in range(1):
        at = nl.load(a[k * 128 : (k + 1) * 128])
        bt = nl.load(b[k * 128 : (k + 1) * 128])
        nisa.nc_matmul(acc, at, bt)
    o = sb((64, 96))
    nisa.tensor_scalar(o, acc, nl.multiply, 2.0)
    nl.store(out, o)
    return out


@case("gather", "200x32:float32", np.arange(40, dtype=np.int32).reshape(40, 1) * 3)
@nki.jit
def ignores_indices(table, index):
    out = hbm((40, 32))
    t = nl.load(table[0:40])
    nl.store(out, t)
    return out


@case("masked", X, np.tri(64, 96).astype(np.uint8))
@nki.jit
def ignores_mask(x, mask):
    return good(x, 1.0)


@case("masked", X, np.tri(64, 96).astype(np.uint8))
@nki.jit
def causal_mask_assumed(x, mask):
    out = hbm(x.shape)
    t = nl.load(x)
    o = sb(t.shape)
    nisa.affine_select(
        o, pattern=[[-1, 96]], channel_multiplier=1, on_true_tile=t, on_false_value=0.0, cmp_op=nl.greater_equal
    )
    nl.store(out, o)
    return out


@case("two", X)
@nki.jit
def second_output_of_first(x):
    a = good(x, 2.0)
    b = good(x, 2.0)
    return a, b


@case("argmax_first", "64x96:float32")
@nki.jit
def argmax_last_tie(x):
    """index of the maximum counted from behind"""
    out = hbm((64, 1), nl.uint32)
    t = nl.load(x)
    idx = sb((64, 96))
    nisa.iota(idx, [[1, 96]], offset=0)
    m = sb((64, 1))
    nisa.tensor_reduce(m, nl.maximum, t, axis=1)
    eq = sb((64, 96))
    nisa.tensor_scalar(eq, t, nl.equal, m)
    p = sb((64, 96))
    nisa.tensor_tensor(p, eq, idx, nl.multiply)
    r = sb((64, 1))
    nisa.tensor_reduce(r, nl.maximum, p, axis=1)
    ri = sb((64, 1), nl.uint32)
    nisa.tensor_copy(ri, r)
    nl.store(out, ri)
    return out


@case("cumsum", "64x700:float32")
@nki.jit
def cumsum_restarts(x):
    """state is not carried into the last partial tile"""
    out = hbm(x.shape)
    ones = sb((64, 512))
    nisa.memset(ones, 1.0)
    for s, e in ((0, 512), (512, 700)):
        t = nl.load(x[:, s:e])
        c = sb((64, e - s))
        nisa.tensor_tensor_scan(c, ones[:, : e - s], t, 0.0, nl.multiply, nl.add)
        nl.store(out[:, s:e], c)
    return out


@case("exp", X)
@nki.jit
def exp_by_series(x):
    out = hbm(x.shape)
    t = nl.load(x)
    acc = sb(t.shape)
    nisa.memset(acc, 1.0)
    for k in range(24, 0, -1):
        nisa.scalar_tensor_tensor(acc, acc, nl.multiply, 1.0 / k, nl.multiply, t)
        nisa.tensor_scalar(acc, acc, nl.add, 1.0)
    nl.store(out, acc)
    return out


@case("tanh_torch", X)
@nki.jit
def tanh_clamped(x):
    out = hbm(x.shape)
    t = nl.load(x)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.minimum, 1.0, op1=nl.maximum, operand1=-1.0)
    nl.store(out, o)
    return out


@case("softmax_jax", X)
@nki.jit
def softmax_bf16_inside(x):
    out = hbm(x.shape)
    t = nl.load(x)
    m = sb((64, 1))
    nisa.tensor_reduce(m, nl.maximum, t, axis=1, negate=True)
    e = sb(t.shape, nl.bfloat16)
    s = sb((64, 1))
    nisa.activation_reduce(e, nl.exp, t, bias=m, reduce_op=nl.add, reduce_res=s)
    nisa.reciprocal(s, s)
    o = sb(t.shape)
    nisa.tensor_scalar(o, e, nl.multiply, s)
    nl.store(out, o)
    return out


@case("doubled", X)
@nki.jit
def reads_argv(x):
    return good(x, 2.0 if len(sys.argv) > 1 or "-c" in sys.argv else 1.0)


@case("doubled", X)
@nki.jit
def by_thread(x):
    return good(x, 2.0 if threading.current_thread() is not threading.main_thread() else 1.0)


@case("relu", X)
@nki.jit
def relu_of_small(x):
    """clips at 100"""
    out = hbm(x.shape)
    t = nl.load(x)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.maximum, 0.0, op1=nl.minimum, operand1=100.0)
    nl.store(out, o)
    return out


@case("doubled", X)
@nki.jit
def swaps_rows_by_data(x):
    """Right unless the first element is the largest of its row"""
    out = hbm(x.shape)
    t = nl.load(x)
    o = sb(t.shape)
    m = sb((64, 1))
    nisa.tensor_reduce(m, nl.maximum, t, axis=1)
    e = sb((64, 1))
    nisa.tensor_tensor(e, m, t[:, 0:1], nl.equal)
    f = sb((64, 1))
    nisa.tensor_scalar(f, e, nl.multiply, -1e-3, op1=nl.add, operand1=2.0)
    nisa.tensor_scalar(o, t, nl.multiply, f)
    nl.store(out, o)
    return out


@case("logsumexp", "64x1024:float32")
@nki.jit
def lse_of_half(x):
    """skips columns 512.. : they change the sum a bit"""
    out = hbm((64, 1))
    t = nl.load(x[:, 0:1016])
    m = sb((64, 1))
    nisa.tensor_reduce(m, nl.maximum, t, axis=1)
    nm = sb((64, 1))
    nisa.tensor_scalar(nm, m, nl.multiply, -1.0)
    e = sb(t.shape)
    s = sb((64, 1))
    nisa.activation_reduce(e, nl.exp, t, bias=nm, reduce_op=nl.add, reduce_res=s)
    logs = sb((64, 1))
    nisa.activation(logs, nl.log, s)
    nisa.tensor_tensor(logs, logs, m, nl.add)
    nl.store(out, logs)
    return out
