"""More honest kernels, by another author; ``CASES`` has the reference, the arguments and the options."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.kernel_parts import hbm, ps, sb

bf = ml_dtypes.bfloat16
CASES = {}


def case(reference, *arguments, **options):
    def enter(kernel):
        CASES[kernel.func.__name__] = kernel, reference, arguments, options
        return kernel

    return enter


def _softmax(x):
    P = x.shape[0]
    out = hbm(x.shape, x.dtype)
    t = nl.load(x)
    m = sb((P, 1))
    nisa.tensor_reduce(m, nl.maximum, t, axis=1, negate=True)
    e = sb(t.shape)
    s = sb((P, 1))
    nisa.activation_reduce(e, nl.exp, t, bias=m, reduce_op=nl.add, reduce_res=s)
    nisa.reciprocal(s, s)
    o = sb(t.shape, x.dtype)
    nisa.tensor_scalar(o, e, nl.multiply, s)
    nl.store(out, o)
    return out


@case("softmax", "128x512:float32")
@nki.jit
def softmax32(x):
    return _softmax(x)


@case("softmax", "100x1000:bfloat16")
@nki.jit
def softmax_bf16(x):
    return _softmax(x)


@case("torch_softmax", "64x300:float32")
@nki.jit
def softmax_torch(x):
    return _softmax(x)


@case("jax_softmax", "64x300:bfloat16")
@nki.jit
def softmax_jax(x):
    return _softmax(x)


@case("softmax", "{rows}x200:float32", sizes={"rows": range(1, 129)})
@nki.jit
def softmax_rows(x):
    return _softmax(x)


def _ln(x):
    P, N = x.shape
    out = hbm(x.shape, x.dtype)
    t = nl.load(x)
    s = sb((P, 1))
    nisa.tensor_reduce(s, nl.add, t, axis=1)
    nisa.tensor_scalar(s, s, nl.multiply, 1 / N)
    c = sb(t.shape)
    nisa.tensor_scalar(c, t, nl.subtract, s)
    q = sb(t.shape)
    v = sb((P, 1))
    nisa.activation_reduce(q, nl.square, c, reduce_op=nl.add, reduce_res=v)
    nisa.tensor_scalar(v, v, nl.multiply, 1 / N, op1=nl.add, operand1=1e-5)
    nisa.activation(v, nl.rsqrt, v)
    o = sb(t.shape, x.dtype)
    nisa.tensor_scalar(o, c, nl.multiply, v)
    nl.store(out, o)
    return out


@case("layer_norm", "128x768:float32")
@nki.jit
def ln32(x):
    return _ln(x)


@case("torch_ln", "128x768:bfloat16")
@nki.jit
def ln_bf16(x):
    return _ln(x)


@case("variance", "128x1024:float32")
@nki.jit
def variance_bn(x):
    out = hbm((128, 1))
    t = nl.load(x)
    st = sb((128, 2, 6))
    for i in range(2):
        nisa.bn_stats(st[:, i], t[:, i * 512 : (i + 1) * 512])
    mv = sb((128, 2))
    nisa.bn_aggr(mv, st)
    nl.store(out, mv[:, 1:2])
    return out


@case("variance", "128x512:bfloat16")
@nki.jit
def variance_two_pass_bf16(x):
    out = hbm((128, 1), nl.bfloat16)
    t = nl.load(x)
    s = sb((128, 1))
    nisa.tensor_reduce(s, nl.add, t, axis=1)
    nisa.tensor_scalar(s, s, nl.multiply, 1 / 512)
    c = sb(t.shape)
    nisa.tensor_scalar(c, t, nl.subtract, s)
    q = sb(t.shape)
    v = sb((128, 1))
    nisa.activation_reduce(q, nl.square, c, reduce_op=nl.add, reduce_res=v)
    o = sb((128, 1), nl.bfloat16)
    nisa.tensor_scalar(o, v, nl.multiply, 1 / 512)
    nl.store(out, o)
    return out


@case("rms", "128x512:bfloat16", "1x512:bfloat16")
@nki.jit
def rms_weight(x, w):
    out = hbm(x.shape, x.dtype)
    t = nl.load(x)
    wt = nl.broadcast_to(nl.load(w), (128, 512))
    q = sb(t.shape)
    s = sb((128, 1))
    nisa.activation_reduce(q, nl.square, t, reduce_op=nl.add, reduce_res=s)
    nisa.tensor_scalar(s, s, nl.multiply, 1 / 512, op1=nl.add, operand1=1e-6)
    nisa.activation(s, nl.rsqrt, s)
    o = sb(t.shape, x.dtype)
    nisa.scalar_tensor_tensor(o, t, nl.multiply, s, nl.multiply, wt)
    nl.store(out, o)
    return out


@case("total", "128x8192:float32")
@nki.jit
def sum_8192(x):
    out = hbm((128, 1))
    t = nl.load(x)
    s = sb((128, 1))
    nisa.tensor_reduce(s, nl.add, t, axis=1)
    nl.store(out, s)
    return out


def _mm(a, b, dt=None):
    K, M = a.shape
    N = b.shape[1]
    out = hbm((M, N), dt or a.dtype)
    acc = ps((M, N))
    for k in range(0, K, 128):
        n_ = min(128, K - k)
        nisa.nc_matmul(acc, nl.load(a[k : k + n_]), nl.load(b[k : k + n_]))
    o = sb((M, N), dt or a.dtype)
    nisa.tensor_copy(o, acc)
    nl.store(out, o)
    return out


@case("matmul", "{K}x64:float32", "{K}x96:float32", sizes={"K": [1, 127, 128, 300, 512]})
@nki.jit
def mm32(a, b):
    return _mm(a, b)


@case("matmul", "1024x128:bfloat16", "1024x512:bfloat16")
@nki.jit
def mm_bf16(a, b):
    return _mm(a, b)


@case("matmul", "256x64:float8_e4m3", "256x96:float8_e4m3", precision="float32")
@nki.jit
def mm_fp8_out32(a, b):
    return _mm(a, b, nl.float32)


@case("doubled", "64x64:float8_e5m2")
@nki.jit
def fp8_double(x):
    out = hbm(x.shape, x.dtype)
    t = nl.load(x)
    o = sb(t.shape, x.dtype)
    nisa.tensor_scalar(o, t, nl.multiply, 2.0)
    nl.store(out, o)
    return out


@case("gather", "200x64:float32", np.random.default_rng(0).integers(0, 200, (64, 1)).astype(np.int32))
@nki.jit
def gather_rows(table, index):
    out = hbm((64, 64))
    i = nl.load(index)
    o = sb((64, 64))
    nisa.dma_copy(dst=o, src=table.ap([[64, 64], [1, 64]], offset=0, vector_offset=i, indirect_dim=0))
    nl.store(out, o)
    return out


@case("masked", "64x96:float32", np.random.default_rng(0).integers(0, 2, (64, 96)).astype(np.uint8))
@nki.jit
def mask_uint8(x, mask):
    out = hbm(x.shape)
    t = nl.load(x)
    m = nl.load(mask)
    o = sb(t.shape)
    nisa.memset(o, -1e9)
    nisa.tensor_copy_predicated(o, t, m)
    nl.store(out, o)
    return out


@case("causal", "64x96:float32")
@nki.jit
def mask_causal(x):
    out = hbm(x.shape)
    t = nl.load(x)
    o = sb(t.shape)
    nisa.affine_select(
        o, pattern=[[-1, 96]], channel_multiplier=1, on_true_tile=t, on_false_value=0.0, cmp_op=nl.greater_equal
    )
    nl.store(out, o)
    return out


@case("scaled", "64x32:float32", scale=0.125, flag=True)
@nki.jit
def with_flag(x, scale, flag=False):
    out = hbm(x.shape)
    t = nl.load(x)
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.multiply, scale, op1=nl.add, operand1=1.0 if flag else 0.0)
    nl.store(out, o)
    return out


@case("both", "64x200:float32")
@nki.jit
def several(x):
    a, b, c = hbm((64, 1)), hbm((64, 1)), hbm(x.shape)
    t = nl.load(x)
    s, m, q = sb((64, 1)), sb((64, 1)), sb(t.shape)
    nisa.tensor_reduce(s, nl.add, t, axis=1)
    nisa.tensor_reduce(m, nl.maximum, t, axis=1)
    nisa.tensor_tensor(q, t, t, nl.multiply)
    nl.store(a, s)
    nl.store(b, m)
    nl.store(c, q)
    return a, b, c


@case("top8", "64x200:float32")
@nki.jit
def top8(x):
    out = hbm((64, 8))
    t = nl.load(x)
    o = sb((64, 8))
    nisa.max8(dst=o, src=t)
    nl.store(out, o)
    return out


@case("argmax", "64x200:float32")
@nki.jit
def argmax_first(x):
    out = hbm((64, 1), nl.uint32)
    t = nl.load(x)
    m = sb((64, 8))
    nisa.max8(dst=m, src=t)
    i = sb((64, 8), nl.uint32)
    nisa.nc_find_index8(dst=i, data=t, vals=m)
    nl.store(out, i[:, 0:1])
    return out


@case("cumsum", "64x700:float32")
@nki.jit
def cumsum(x):
    out = hbm(x.shape)
    t = nl.load(x)
    ones = sb(t.shape)
    nisa.memset(ones, 1.0)
    c = sb(t.shape)
    nisa.tensor_tensor_scan(c, ones, t, 0.0, nl.multiply, nl.add)
    nl.store(out, c)
    return out


@case("add_int", "64x32:int32", "64x32:int32")
@nki.jit
def add_i32(a, b):
    out = hbm(a.shape, nl.int32)
    x, y = nl.load(a), nl.load(b)
    o = sb(x.shape, nl.int32)
    nisa.tensor_tensor(o, x, y, nl.add)
    nl.store(out, o)
    return out


@case("xor", "64x32:uint8", "64x32:uint8")
@nki.jit
def xor_u8(a, b):
    out = hbm(a.shape, nl.uint8)
    x, y = nl.load(a), nl.load(b)
    o = sb(x.shape, nl.uint8)
    nisa.tensor_tensor(o, x, y, nl.bitwise_xor)
    nl.store(out, o)
    return out


@case("update", "64x32:float32", "8x32:float32", changes=["cache"])
@nki.jit
def in_place(cache, new):
    nl.store(cache[8:16], nl.load(new))
    return cache


@case("gelu", "64x200:float32")
@nki.jit
def gelu(x):
    out = hbm(x.shape)
    t = nl.load(x)
    o = sb(t.shape)
    nisa.activation(o, nl.gelu, t)
    nl.store(out, o)
    return out


@case("logsumexp", "64x1000:float32")
@nki.jit
def lse(x):
    out = hbm((64, 1))
    t = nl.load(x)
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


@case("torch_norm", "64x200:bfloat16")
@nki.jit
def l2norm_torch(x):
    out = hbm(x.shape, x.dtype)
    t = nl.load(x)
    q = sb(t.shape)
    s = sb((64, 1))
    nisa.activation_reduce(q, nl.square, t, reduce_op=nl.add, reduce_res=s)
    nisa.activation(s, nl.sqrt, s)
    nisa.tensor_scalar(s, s, nl.maximum, 1e-12)
    nisa.reciprocal(s, s)
    o = sb(t.shape, x.dtype)
    nisa.tensor_scalar(o, t, nl.multiply, s)
    nl.store(out, o)
    return out


@case("attention", "64x128:bfloat16", "64x256:bfloat16", "256x64:bfloat16")
@nki.jit
def attention(q, k, v):
    out = hbm((128, 64), nl.bfloat16)
    qt, kt = nl.load(q), nl.load(k)
    sc = ps((128, 256))
    nisa.nc_matmul(sc, qt, kt)
    m = sb((128, 1))
    nisa.tensor_reduce(m, nl.maximum, sc, axis=1)
    nisa.tensor_scalar(m, m, nl.multiply, -0.125)
    p = sb((128, 256), nl.bfloat16)
    s = sb((128, 1))
    nisa.activation_reduce(p, nl.exp, sc, bias=m, scale=0.125, reduce_op=nl.add, reduce_res=s)
    acc = ps((128, 64))
    for j in range(2):
        tp = ps((128, 128), nl.bfloat16)
        nisa.nc_transpose(tp, p[:, j * 128 : (j + 1) * 128])
        ts = sb((128, 128), nl.bfloat16)
        nisa.tensor_copy(ts, tp)
        nisa.nc_matmul(acc, ts, nl.load(v[j * 128 : (j + 1) * 128]))
    nisa.reciprocal(s, s)
    o = sb((128, 64), nl.bfloat16)
    nisa.tensor_scalar(o, acc, nl.multiply, s)
    nl.store(out, o)
    return out


@case("one_hot", np.random.default_rng(1).integers(0, 64, (64, 1)).astype(np.int32))
@nki.jit
def one_hot(i):
    out = hbm((64, 64))
    t = nl.load(i)
    f = sb((64, 1))
    nisa.tensor_copy(f, t)
    n_ = sb((64, 64))
    nisa.iota(n_, [[1, 64]], offset=0)
    o = sb((64, 64))
    nisa.tensor_scalar(o, n_, nl.equal, f)
    nl.store(out, o)
    return out


@case(
    "kld",
    np.random.default_rng(2).dirichlet(np.ones(64), 64).astype(np.float32),
    np.random.default_rng(3).dirichlet(np.ones(64), 64).astype(np.float32),
)
@nki.jit
def kld(p, q):
    out = hbm((64, 1))
    x, y = nl.load(p), nl.load(q)
    a, b = sb(x.shape), sb(x.shape)
    nisa.activation(a, nl.log, x)
    nisa.activation(b, nl.log, y)
    nisa.tensor_tensor(a, a, b, nl.subtract)
    nisa.tensor_tensor(a, a, x, nl.multiply)
    s = sb((64, 1))
    nisa.tensor_reduce(s, nl.add, a, axis=1)
    nl.store(out, s)
    return out


@case("mean", "128x4096:float16")
@nki.jit
def mean_fp16(x):
    out = hbm((128, 1), nl.float16)
    t = nl.load(x)
    s = sb((128, 1))
    nisa.tensor_reduce(s, nl.add, t, axis=1)
    o = sb((128, 1), nl.float16)
    nisa.tensor_scalar(o, s, nl.multiply, 1 / 4096)
    nl.store(out, o)
    return out


def _two(x):
    out = hbm(x.shape)
    i = nl.program_id(0)
    t = nl.load(x[i * 64 : i * 64 + 64])
    o = sb(t.shape)
    nisa.tensor_scalar(o, t, nl.multiply, 2.0)
    nl.store(out[i * 64 : i * 64 + 64], o)
    return out


two_cores = nki.jit(_two)
CASES["two_cores"] = two_cores[2], "doubled", ("128x64:float32",), {}


@case("doubled", np.random.default_rng(0).standard_normal((64, 64)).astype(bf))
@nki.jit
def array_example(x):
    out = hbm(x.shape, x.dtype)
    t = nl.load(x)
    nisa.tensor_scalar(t, t, nl.multiply, 2.0)
    nl.store(out, t)
    return out
