"""Element-wise instructions of the Vector, Scalar and GpSimd engines."""

import nki
import nki.isa as nisa
import nki.language as nl

ARGUMENTS = {
    "activation": ["128x512:float32", "128x1:float32"],
    "activate2": ["128x512:float32"],
    "exponential": ["128x512:float32"],
    "reciprocal": ["128x512:float32:ones"],
    "tensor_scalar": ["128x512:float32", "128x1:float32"],
    "scalar_tensor_tensor": ["128x512:float32", "128x512:float32"],
    "tensor_tensor": ["128x512:float32", "128x512:float32"],
    "tensor_copy_predicated": ["128x512:float32", "128x512:float32"],
    "affine_select": ["128x128:float32"],
    "quantize_mx": ["128x512:bfloat16"],
}


@nki.jit
def activation(x, bias):
    """gelu(2 x + bias), with one bias per partition."""
    tile, shift = nl.load(x), nl.load(bias)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(dst=result, op=nl.gelu, data=tile, scale=2.0, bias=shift)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


@nki.jit
def activate2(x):
    """relu(3 x + 1): two operators and a function in one instruction."""
    tile = nl.load(x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.activate2(dst=result, op=nl.relu, data=tile, imm0=3.0, imm1=1.0, op0=nl.multiply, op1=nl.add)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


@nki.jit
def exponential(x):
    """The numerator of a softmax: exp(x - row maximum)."""
    tile = nl.load(x)
    largest = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=1)
    result = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.exponential(dst=result, src=tile, max_value=largest)
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


@nki.jit
def reciprocal(x):
    """1 / x."""
    tile = nl.load(x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.reciprocal(dst=result, data=tile)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


@nki.jit
def tensor_scalar(x, mean):
    """(x - mean) / 4, with one mean per partition."""
    tile, center = nl.load(x), nl.load(mean)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=tile, op0=nl.subtract, operand0=center, op1=nl.multiply, operand1=0.25)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


@nki.jit
def scalar_tensor_tensor(x, y):
    """2 x + y in one pass."""
    left, right = nl.load(x), nl.load(y)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(dst=result, data=left, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=right)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out


@nki.jit
def tensor_tensor(x, y):
    """x + y."""
    left, right = nl.load(x), nl.load(y)
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, total)
    return out


@nki.jit
def tensor_copy_predicated(x, y):
    """y where x is positive, x elsewhere."""
    tile, other = nl.load(x), nl.load(y)
    positive = nl.ndarray(x.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=positive, data=tile, op0=nl.greater, operand0=0.0)
    nisa.tensor_copy_predicated(dst=tile, src=other, predicate=positive)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def affine_select(scores):
    """A causal mask: scores on and below the diagonal, a large negative number above it."""
    tile = nl.load(scores)
    masked = nl.ndarray(scores.shape, dtype=scores.dtype, buffer=nl.sbuf)
    # The position of element (p, i) is p - i.
    nisa.affine_select(
        dst=masked,
        pattern=[[-1, scores.shape[1]]],
        channel_multiplier=1,
        on_true_tile=tile,
        on_false_value=-1e30,
        cmp_op=nl.greater_equal,
    )
    out = nl.ndarray(scores.shape, dtype=scores.dtype, buffer=nl.shared_hbm)
    nl.store(out, masked)
    return out


@nki.jit
def quantize_mx(x):
    """A tile in MXFP8: packed numbers, and a scale per group of 32."""
    tile = nl.load(x)
    rows, columns = x.shape
    packed = nl.ndarray((rows, columns // 4), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
    scale = nl.ndarray((rows, columns // 4), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=tile, dst_scale=scale)
    out = nl.ndarray(packed.shape, dtype=packed.dtype, buffer=nl.shared_hbm)
    nl.store(out, packed)
    return out
