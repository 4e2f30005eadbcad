"""Thirty kernels with a planted loss of digits. The line that loses them ends with ``# loss``."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl

RNG = np.random.default_rng(37)
BF16 = np.dtype(ml_dtypes.bfloat16)


def normal(*shape, mean=0.0, scale=1.0, dtype=np.float32):
    return (RNG.normal(size=shape) * scale + mean).astype(dtype)


def returned(tile, dtype=None):
    out = nl.ndarray(tile.shape, dtype=dtype or tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def tile_of(like, dtype=nl.float32, buffer=nl.sbuf, shape=None):
    return nl.ndarray(shape or like.shape, dtype=dtype, buffer=buffer)


@nki.jit
def accumulates_in_bfloat16(x):
    """A sum over tiles in a bfloat16 tile."""
    total = nl.zeros((128, 64), nl.bfloat16)
    for i in range(32):
        part = nl.load(x[:, i * 64 : i * 64 + 64])
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)  # loss
    return returned(total, nl.float32)


@nki.jit
def variance_of_squares(x):
    """E[x^2] - E[x]^2 of data far from 0."""
    t = nl.load(x)
    mean = nl.mean(t, axis=1)
    square = nl.mean(nl.square(t), axis=1)
    mean2 = nl.square(mean)
    var = nl.subtract(square, mean2)  # loss
    return returned(var)


@nki.jit
def layer_norm_of_squares(x):
    """A whole LayerNorm with E[x^2] - E[x]^2."""
    t = nl.load(x)
    mean = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=mean, data=t, op=nl.add, axis=1)
    nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1 / 512)
    squares = tile_of(x)
    total = tile_of(x, shape=(128, 1))
    nisa.tensor_tensor(dst=squares, data1=t, data2=t, op=nl.multiply)
    nisa.tensor_reduce(dst=total, data=squares, op=nl.add, axis=1)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1 / 512)
    mean2 = tile_of(x, shape=(128, 1))
    nisa.tensor_tensor(dst=mean2, data1=mean, data2=mean, op=nl.multiply)
    var = tile_of(x, shape=(128, 1))
    nisa.tensor_tensor(dst=var, data1=total, data2=mean2, op=nl.subtract)  # loss
    scale = tile_of(x, shape=(128, 1))
    nisa.activation(dst=scale, op=nl.rsqrt, data=var)
    y = tile_of(x)
    nisa.tensor_scalar(dst=y, data=t, op0=nl.subtract, operand0=mean, op1=nl.multiply, operand1=scale)
    return returned(y)


@nki.jit
def softmax_without_shift(x):
    """exp of large numbers."""
    t = nl.load(x)
    e = tile_of(x)
    nisa.activation(dst=e, op=nl.exp, data=t)  # loss
    total = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=total, data=e, op=nl.add, axis=1)
    inverse = tile_of(x, shape=(128, 1))
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=inverse)
    return returned(e)


@nki.jit
def softmax_far_beyond(x):
    """exp of numbers that are too large for float64 as well."""
    t = nl.load(x)
    e = tile_of(x)
    total = tile_of(x, shape=(128, 1))
    nisa.activation(dst=e, op=nl.exp, data=t)  # loss
    nisa.tensor_reduce(dst=total, data=e, op=nl.add, axis=1)
    inverse = tile_of(x, shape=(128, 1))
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=inverse)
    return returned(e)


@nki.jit
def softmax_in_bfloat16(x):
    """The shifted numbers stored in bfloat16 before exp makes their rounding large."""
    t = nl.load(x)
    greatest = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=greatest, data=t, op=nl.maximum, axis=1)
    shifted = tile_of(x, nl.bfloat16)
    nisa.tensor_scalar(dst=shifted, data=t, op0=nl.subtract, operand0=greatest)  # loss
    e = tile_of(x)
    total = tile_of(x, shape=(128, 1))
    nisa.activation(dst=e, op=nl.exp, data=shifted)
    nisa.tensor_reduce(dst=total, data=e, op=nl.add, axis=1)
    inverse = tile_of(x, shape=(128, 1))
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=inverse)
    return returned(e)


@nki.jit
def cast_in_the_middle(x):
    """A bfloat16 copy between two float32 steps, for no reason."""
    t = nl.load(x)
    y = tile_of(x)
    nisa.activation(dst=y, op=nl.tanh, data=t)
    low = tile_of(x, nl.bfloat16)
    nisa.tensor_copy(dst=low, src=y)  # loss
    z = tile_of(x)
    nisa.tensor_tensor(dst=z, data1=low, data2=t, op=nl.multiply)
    nisa.activation(dst=z, op=nl.exp, data=z)
    return returned(z)


@nki.jit
def wrong_cast_at_load(x):
    """The load asks for bfloat16."""
    t = tile_of(x, nl.bfloat16)
    nisa.dma_copy(dst=t, src=x)  # loss
    y = tile_of(x)
    nisa.activation(dst=y, op=nl.sin, data=t)
    return returned(y)


@nki.jit
def psum_to_bfloat16_too_early(a, b):
    """Partial products leave PSUM as bfloat16 and are added then."""
    total = nl.zeros((128, 256), nl.float32)
    for k in range(8):
        left = nl.load(a[k * 128 : k * 128 + 128])
        right = nl.load(b[k * 128 : k * 128 + 128])
        psum = tile_of(a, nl.float32, nl.psum, (128, 256))
        nisa.nc_matmul(dst=psum, stationary=left, moving=right)
        part = tile_of(a, nl.bfloat16, nl.sbuf, (128, 256))
        nisa.tensor_copy(dst=part, src=psum)  # loss
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    return returned(total)


@nki.jit
def bfloat16_operands(a, b):
    """float32 operands of a product that someone made bfloat16 for speed."""
    left = nl.load(a)
    right = nl.load(b)
    both = tile_of(a, nl.bfloat16)
    other = tile_of(b, nl.bfloat16)
    nisa.tensor_copy(dst=both, src=left), nisa.tensor_copy(dst=other, src=right)  # loss
    psum = tile_of(a, nl.float32, nl.psum, (128, 256))
    nisa.nc_matmul(dst=psum, stationary=both, moving=other)
    y = tile_of(a, shape=(128, 256))
    nisa.tensor_copy(dst=y, src=psum)
    return returned(y)


@nki.jit
def epsilon_vanishes(x):
    """An epsilon in float16 is 0: rows of zeros divide by it."""
    t = nl.load(x)
    squares = tile_of(x)
    nisa.tensor_tensor(dst=squares, data1=t, data2=t, op=nl.multiply)
    total = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=total, data=squares, op=nl.add, axis=1)
    eps = tile_of(x, nl.float16, shape=(128, 1))
    nisa.memset(dst=eps, value=1e-9)  # loss
    nisa.tensor_tensor(dst=total, data1=total, data2=eps, op=nl.add)
    scale = tile_of(x, shape=(128, 1))
    nisa.activation(dst=scale, op=nl.rsqrt, data=total)
    y = tile_of(x)
    nisa.tensor_scalar(dst=y, data=t, op0=nl.multiply, operand0=scale)
    return returned(y)


@nki.jit
def epsilon_is_absorbed(x):
    """1 + x of small x, and a logarithm that needs what was lost."""
    t = nl.load(x)
    y = tile_of(x)
    nisa.tensor_scalar(dst=y, data=t, op0=nl.add, operand0=1.0)  # loss
    nisa.activation(dst=y, op=nl.log, data=y)
    return returned(y)


@nki.jit
def expm1_by_difference(x):
    """exp(x) - 1 of small x."""
    t = nl.load(x)
    e = tile_of(x)
    nisa.activation(dst=e, op=nl.exp, data=t)
    y = tile_of(x)
    nisa.tensor_scalar(dst=y, data=e, op0=nl.subtract, operand0=1.0)  # loss
    return returned(y)


@nki.jit
def difference_of_squares(x, y):
    """x^2 - y^2 of neighbours, instead of (x - y)(x + y)."""
    a, b = nl.load(x), nl.load(y)
    squares, others = tile_of(x), tile_of(x)
    nisa.tensor_tensor(dst=squares, data1=a, data2=a, op=nl.multiply)
    nisa.tensor_tensor(dst=others, data1=b, data2=b, op=nl.multiply)
    z = tile_of(x)
    nisa.tensor_tensor(dst=z, data1=squares, data2=others, op=nl.subtract)  # loss
    return returned(z)


@nki.jit
def long_bfloat16_sum(x):
    """A running sum over columns in bfloat16."""
    t = nl.load(x)
    total = nl.zeros((128, 1), nl.bfloat16)
    for i in range(256):
        nisa.tensor_tensor(dst=total, data1=total, data2=t[:, i : i + 1], op=nl.add)  # loss
    y = tile_of(x)
    wide = tile_of(x, shape=(128, 1))
    nisa.tensor_copy(dst=wide, src=total)
    nisa.tensor_scalar(dst=y, data=t, op0=nl.multiply, operand0=wide)
    return returned(y)


@nki.jit
def underflow_of_a_product(x, y):
    """A product below float32's range, made large again."""
    a, b = nl.load(x), nl.load(y)
    z = tile_of(x)
    nisa.tensor_tensor(dst=z, data1=a, data2=b, op=nl.multiply)  # loss
    nisa.tensor_scalar(dst=z, data=z, op0=nl.multiply, operand0=1e30)
    return returned(z)


@nki.jit
def subnormals(x):
    """A scale that makes subnormal numbers, and its inverse."""
    t = nl.load(x)
    small, y = tile_of(x), tile_of(x)
    nisa.tensor_scalar(dst=small, data=t, op0=nl.multiply, operand0=2.0**-140)  # loss
    nisa.tensor_scalar(dst=y, data=small, op0=nl.multiply, operand0=2.0**100, op1=nl.multiply, operand1=2.0**40)
    return returned(y)


@nki.jit
def float8_weights(a, b):
    """Weights in an 8-bit float, and the rest in float32."""
    left, right = nl.load(a), nl.load(b)
    low = tile_of(a, nl.float8_e4m3)
    nisa.tensor_copy(dst=low, src=left)  # loss
    y, scaled = tile_of(a), tile_of(a)
    nisa.tensor_copy(dst=scaled, src=low)
    nisa.tensor_tensor(dst=y, data1=scaled, data2=right, op=nl.multiply)
    return returned(y)


@nki.jit
def mean_in_bfloat16(x):
    """The mean of a LayerNorm in bfloat16; the variance is right."""
    t = nl.load(x)
    total = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=total, data=t, op=nl.add, axis=1)
    mean = tile_of(x, nl.bfloat16, shape=(128, 1))
    nisa.tensor_scalar(dst=mean, data=total, op0=nl.multiply, operand0=1 / 512)  # loss
    wide = tile_of(x, shape=(128, 1))
    nisa.tensor_copy(dst=wide, src=mean)
    centred, squares = tile_of(x), tile_of(x)
    nisa.tensor_scalar(dst=centred, data=t, op0=nl.subtract, operand0=wide)
    nisa.tensor_tensor(dst=squares, data1=centred, data2=centred, op=nl.multiply)
    nisa.tensor_reduce(dst=total, data=squares, op=nl.add, axis=1)
    scale = tile_of(x, shape=(128, 1))
    nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1 / 512)
    nisa.tensor_scalar(dst=centred, data=centred, op0=nl.multiply, operand0=scale)
    return returned(centred)


@nki.jit
def online_softmax_rescale(x):
    """Flash attention's running sum, with a bfloat16 sum between blocks."""
    total = nl.zeros((128, 1), nl.bfloat16)
    greatest = nl.full((128, 1), -1e30, nl.float32)
    for i in range(16):
        t = nl.load(x[:, i * 64 : i * 64 + 64])
        here, new, shift = (tile_of(x, shape=(128, 1)) for _ in range(3))
        nisa.tensor_reduce(dst=here, data=t, op=nl.maximum, axis=1)
        nisa.tensor_tensor(dst=new, data1=greatest, data2=here, op=nl.maximum)
        nisa.tensor_tensor(dst=shift, data1=greatest, data2=new, op=nl.subtract)
        nisa.activation(dst=shift, op=nl.exp, data=shift)
        e, part, scaled = tile_of(x, shape=(128, 64)), tile_of(x, shape=(128, 1)), tile_of(x, shape=(128, 1))
        nisa.tensor_scalar(dst=e, data=t, op0=nl.subtract, operand0=new)
        nisa.activation(dst=e, op=nl.exp, data=e)
        nisa.tensor_reduce(dst=part, data=e, op=nl.add, axis=1)
        nisa.tensor_tensor(dst=scaled, data1=total, data2=shift, op=nl.multiply)
        nisa.tensor_tensor(dst=total, data1=scaled, data2=part, op=nl.add)  # loss
        greatest = new
    y = tile_of(x, shape=(128, 1))
    nisa.activation(dst=y, op=nl.log, data=total)
    nisa.tensor_tensor(dst=y, data1=y, data2=greatest, op=nl.add)
    return returned(y)


@nki.jit
def rms_scale_in_bfloat16(x, w):
    """RMSNorm: the scale of each row in bfloat16."""
    t, g = nl.load(x), nl.load(w)
    squares, total = tile_of(x), tile_of(x, shape=(128, 1))
    nisa.tensor_tensor(dst=squares, data1=t, data2=t, op=nl.multiply)
    nisa.tensor_reduce(dst=total, data=squares, op=nl.add, axis=1)
    low = tile_of(x, nl.bfloat16, shape=(128, 1))
    nisa.activation(dst=low, op=nl.rsqrt, data=total, scale=1 / 512)  # loss
    scale, y = tile_of(x, shape=(128, 1)), tile_of(x)
    nisa.tensor_copy(dst=scale, src=low)
    nisa.tensor_scalar(dst=y, data=t, op0=nl.multiply, operand0=scale)
    nisa.tensor_tensor(dst=y, data1=y, data2=g, op=nl.multiply)
    return returned(y)


@nki.jit
def angle_in_bfloat16(position, frequency):
    """RoPE: large angles in bfloat16 lose all of their phase."""
    p, f = nl.load(position), nl.load(frequency)
    angle = tile_of(position, nl.bfloat16)
    nisa.tensor_tensor(dst=angle, data1=p, data2=f, op=nl.multiply)  # loss
    y = tile_of(position)
    nisa.activation(dst=y, op=nl.sin, data=angle)
    return returned(y)


@nki.jit
def cancelling_product(a, b):
    """A product less its own greatest part: a matrix product, then a difference with nearly the same."""
    left, right = nl.load(a), nl.load(b)
    psum = tile_of(a, nl.float32, nl.psum, (128, 256))
    nisa.nc_matmul(dst=psum, stationary=left, moving=right)
    product, copy = tile_of(a, shape=(128, 256)), tile_of(a, shape=(128, 256))
    nisa.tensor_copy(dst=product, src=psum)
    nisa.tensor_scalar(dst=copy, data=product, op0=nl.multiply, operand0=1.0001)
    y = tile_of(a, shape=(128, 256))
    nisa.tensor_tensor(dst=y, data1=copy, data2=product, op=nl.subtract)  # loss
    return returned(y)


@nki.jit
def residual_in_bfloat16(x, w):
    """A residual stream of eight layers that is kept in bfloat16."""
    stream = tile_of(x, nl.bfloat16)
    nisa.dma_copy(dst=stream, src=x)
    for i in range(8):
        gain = nl.load(w[:, i : i + 1])
        y = tile_of(x)
        nisa.activation(dst=y, op=nl.tanh, data=stream, scale=gain)
        nisa.tensor_tensor(dst=stream, data1=stream, data2=y, op=nl.add)  # loss
    return returned(stream, nl.float32)


@nki.jit
def attention_weights_in_float8(q, k, v):
    """Scores and sums in float32, weights in an 8-bit float."""
    left, right, values = nl.load(q), nl.load(k), nl.load(v)
    scores = tile_of(q, nl.float32, nl.psum, (128, 128))
    nisa.nc_matmul(dst=scores, stationary=left, moving=right)
    greatest = tile_of(q, shape=(128, 1))
    nisa.tensor_reduce(dst=greatest, data=scores, op=nl.maximum, axis=1)
    e, total = tile_of(q, shape=(128, 128)), tile_of(q, shape=(128, 1))
    nisa.tensor_scalar(dst=e, data=scores, op0=nl.subtract, operand0=greatest)
    nisa.activation(dst=e, op=nl.exp, data=e, scale=0.1)
    nisa.tensor_reduce(dst=total, data=e, op=nl.add, axis=1)
    weights = tile_of(q, nl.float8_e5m2, shape=(128, 128))
    nisa.tensor_copy(dst=weights, src=e)  # loss
    wide = tile_of(q, shape=(128, 128))
    nisa.tensor_copy(dst=wide, src=weights)
    turned = tile_of(q, nl.float32, nl.psum, (128, 128))
    nisa.nc_transpose(dst=turned, data=wide)
    moved = tile_of(q, shape=(128, 128))
    nisa.tensor_copy(dst=moved, src=turned)
    psum = tile_of(q, nl.float32, nl.psum, (128, 64))
    nisa.nc_matmul(dst=psum, stationary=moved, moving=values)
    inverse, y = tile_of(q, shape=(128, 1)), tile_of(q, shape=(128, 64))
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(dst=y, data=psum, op0=nl.multiply, operand0=inverse)
    return returned(y)


@nki.jit
def overflow_in_float16(x):
    """Squares in float16, which ends at 65504."""
    t = nl.load(x)
    squares = tile_of(x, nl.float16)
    nisa.tensor_tensor(dst=squares, data1=t, data2=t, op=nl.multiply)  # loss
    total = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=total, data=squares, op=nl.add, axis=1)
    nisa.activation(dst=total, op=nl.sqrt, data=total)
    return returned(total)


@nki.jit
def norm_that_overflows(x):
    """A sum of squares beyond float32's range."""
    t = nl.load(x)
    squares, total = tile_of(x), tile_of(x, shape=(128, 1))
    nisa.tensor_tensor(dst=squares, data1=t, data2=t, op=nl.multiply)  # loss
    nisa.tensor_reduce(dst=total, data=squares, op=nl.add, axis=1)
    nisa.activation(dst=total, op=nl.sqrt, data=total)
    return returned(total)


@nki.jit
def logarithm_of_an_underflow(x):
    """log(softmax) in two steps: the small weights are 0 by then."""
    t = nl.load(x)
    greatest = tile_of(x, shape=(128, 1))
    nisa.tensor_reduce(dst=greatest, data=t, op=nl.maximum, axis=1)
    e = tile_of(x)
    nisa.tensor_scalar(dst=e, data=t, op0=nl.subtract, operand0=greatest)
    nisa.activation(dst=e, op=nl.exp, data=e)  # loss
    nisa.activation(dst=e, op=nl.log, data=e)
    return returned(e)


@nki.jit
def scan_in_bfloat16(x):
    """A recurrence in blocks, with the state between blocks in bfloat16."""
    t = nl.load(x)
    decay = nl.full((128, 64), 0.999, nl.float32)
    state = nl.zeros((128, 1), nl.bfloat16)
    y = tile_of(x)
    for i in range(8):
        part = y[:, i * 64 : i * 64 + 64]
        wide = tile_of(x, shape=(128, 1))
        nisa.tensor_copy(dst=wide, src=state)
        data = t[:, i * 64 : i * 64 + 64]
        nisa.tensor_tensor_scan(dst=part, data0=decay, data1=data, initial=wide, op0=nl.multiply, op1=nl.add)
        nisa.tensor_copy(dst=state, src=part[:, 63:64])  # loss
    return returned(y)


@nki.jit
def output_in_bfloat16_of_a_bad_mean(x):
    """The caller asks for bfloat16, which is not the loss that matters: E[x^2] - E[x]^2 is."""
    t = nl.load(x)
    mean = nl.mean(t, axis=1)
    square = nl.mean(nl.square(t), axis=1)
    mean2 = nl.square(mean)
    var = nl.subtract(square, mean2)  # loss
    scale = nl.rsqrt(var)
    y = tile_of(x, nl.bfloat16)
    nisa.tensor_scalar(dst=y, data=t, op0=nl.multiply, operand0=scale)
    return returned(y)


@nki.jit
def loss_in_a_helper(x):
    """The loss is in a function that the kernel calls."""
    t = nl.load(x)
    y = tile_of(x)
    _gated(y, t)
    return returned(y)


def _gated(y, t):
    gate = tile_of(t, nl.bfloat16)
    nisa.activation(dst=gate, op=nl.sigmoid, data=t)  # loss
    nisa.tensor_tensor(dst=y, data1=gate, data2=t, op=nl.multiply)


@nki.jit
def far_cancellation(x):
    """The mean is taken off, the sum of squares is right, but data lies at 10000: the load was in bfloat16."""
    t = tile_of(x, nl.bfloat16)
    nisa.dma_copy(dst=t, src=x)  # loss
    total, centred = tile_of(x, shape=(128, 1)), tile_of(x)
    nisa.tensor_reduce(dst=total, data=t, op=nl.add, axis=1)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1 / 512)
    nisa.tensor_scalar(dst=centred, data=t, op0=nl.subtract, operand0=total)
    return returned(centred)


ARGUMENTS = {
    accumulates_in_bfloat16: (normal(128, 2048, mean=1.0),),
    variance_of_squares: (normal(128, 512, mean=100.0),),
    layer_norm_of_squares: (normal(128, 512, mean=300.0),),
    softmax_without_shift: (normal(128, 256, mean=90.0, scale=3.0),),
    softmax_far_beyond: (normal(128, 256, mean=900.0, scale=3.0),),
    softmax_in_bfloat16: (normal(128, 256, scale=6.0),),
    cast_in_the_middle: (normal(128, 256),),
    wrong_cast_at_load: (normal(128, 256),),
    psum_to_bfloat16_too_early: (normal(1024, 128, dtype=BF16), normal(1024, 256, dtype=BF16)),
    bfloat16_operands: (normal(128, 128), normal(128, 256)),
    epsilon_vanishes: (np.concatenate([normal(64, 256), np.zeros((64, 256), np.float32)]),),
    epsilon_is_absorbed: (normal(128, 256, scale=1e-6),),
    expm1_by_difference: (normal(128, 256, scale=1e-5),),
    difference_of_squares: ((a := normal(128, 256, mean=50.0)), a + normal(128, 256, scale=1e-4)),
    long_bfloat16_sum: (normal(128, 256, mean=0.5),),
    underflow_of_a_product: (normal(128, 64, scale=1e-20), normal(128, 64, scale=1e-22)),
    subnormals: (normal(128, 64),),
    float8_weights: (normal(128, 64), normal(128, 64)),
    mean_in_bfloat16: (normal(128, 512, mean=20.0),),
    online_softmax_rescale: (normal(128, 1024, scale=2.0),),
    rms_scale_in_bfloat16: (normal(128, 512), normal(128, 512)),
    angle_in_bfloat16: (normal(128, 64), normal(128, 64)),
    cancelling_product: (normal(128, 128, mean=1.0), normal(128, 256, mean=1.0)),
    residual_in_bfloat16: (normal(128, 256, mean=3.0), normal(128, 8)),
    attention_weights_in_float8: (normal(64, 128), normal(64, 128), normal(128, 64)),
    overflow_in_float16: (normal(128, 64, scale=200.0),),
    norm_that_overflows: (normal(128, 64, scale=1e20),),
    logarithm_of_an_underflow: (normal(128, 64, scale=60.0),),
    scan_in_bfloat16: (normal(128, 512, mean=1.0),),
    output_in_bfloat16_of_a_bad_mean: (normal(128, 512, mean=900.0),),
    loss_in_a_helper: (normal(128, 256),),
    far_cancellation: (normal(128, 512, mean=10000.0),),
}
