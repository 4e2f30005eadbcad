"""The parts of a Llama-style decoder that are NKI kernels, forward and backward.

Attention with rotary embedding and causal mask, RMSNorm and SwiGLU; the dense layers between them stay PyTorch's or
JAX's. All arithmetic is float32. Data lies in *rows*: one token a partition, its features along the free axis, up to
128 tokens a tile. Every reduction over features is then a reduction along the free axis. The Tensor engine contracts
over partitions, so attention turns queries and keys first (features on the partitions).

Tables and masks come last among the arguments: they have no gradient (see ``nki.torch.op``).
Needs trn2 or later (32-row tiles of the Tensor engine). The annotations are the shapes for which
``nki check examples/llama`` compiles a kernel; a call may have others.
"""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl

PARTITIONS = 128  # rows of SBUF and PSUM
HEAD = 32  # features of one attention head
HALF = HEAD // 2
MASKED = -30000.0  # added to a score that must not count: exp gives 0 even after the largest score is subtracted
EPSILON = 1e-5  # added to the mean square by RMSNorm


# ---- pieces that the kernels share ---------------------------------------------------------------------------------


def load(source):
    """A matrix, or a block of rows of one, in SBUF."""
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def like(tile):
    """A tile of the same shape, float32."""
    return nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)


def ones(partitions, columns):
    tile = nl.ndarray((partitions, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=1.0)
    return tile


def load_replicated(vector, rows):
    """[n] in HBM -> [rows, n] in SBUF, the same in each row (n <= 512): the product of a column of ones and the row."""
    spread = nl.ndarray((rows, vector.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(
        dst=spread, stationary=ones(1, rows), moving=load(vector.reshape((1, vector.shape[0]))), accumulate=False
    )
    tile = like(spread)
    nisa.tensor_copy(dst=tile, src=spread)
    return tile


def turned(tile):
    """[p, n] -> [n, p] in SBUF, n <= 128, by way of PSUM."""
    spread = nl.ndarray((tile.shape[1], tile.shape[0]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_transpose(dst=spread, data=tile)
    result = like(spread)
    nisa.tensor_copy(dst=result, src=spread)
    return result


# ---- RMSNorm -------------------------------------------------------------------------------------------------------


def inverse_norm(rows):
    """1 / sqrt(mean of squares + EPSILON) of each row: [p, 1]."""
    total = nl.ndarray((rows.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(dst=like(rows), op=nl.square, data=rows, reduce_op=nl.add, reduce_res=total)
    mean = like(total)
    nisa.tensor_scalar(
        dst=mean, data=total, op0=nl.multiply, operand0=1.0 / rows.shape[1], op1=nl.add, operand1=EPSILON
    )
    result = like(total)
    nisa.activation(dst=result, op=nl.rsqrt, data=mean)
    return result


@nki.jit
def rms_norm(x: "1024x128:float32", weight: "128:float32"):
    """x / rms(x) * weight, by row. x: [tokens, features <= 512], weight: [features]; returns [tokens, features]."""
    tokens, features = x.shape
    y = nl.ndarray((tokens, features), dtype=nl.float32, buffer=nl.shared_hbm)
    weights = load_replicated(weight, min(tokens, PARTITIONS))
    for first in range(0, tokens, PARTITIONS):
        last = min(first + PARTITIONS, tokens)
        rows = load(x[first:last, :])
        nisa.scalar_tensor_tensor(
            dst=rows,
            data=rows,
            op0=nl.multiply,
            operand0=inverse_norm(rows),
            op1=nl.multiply,
            operand1=weights[0 : last - first, :],
        )
        nisa.dma_copy(dst=y[first:last, :], src=rows)
    return y


@nki.jit
def rms_norm_backward(x: "1024x128:float32", weight: "128:float32", dy: "1024x128:float32"):
    """Gradients of x and weight.

    With n = x / rms and g = dy * weight: dx = (g - n mean(g n)) / rms, and dweight is the sum of dy n over the tokens,
    which a product with a column of ones adds up in PSUM.
    """
    tokens, features = x.shape
    dx = nl.ndarray((tokens, features), dtype=nl.float32, buffer=nl.shared_hbm)
    dweight = nl.ndarray((features,), dtype=nl.float32, buffer=nl.shared_hbm)
    weights, column = load_replicated(weight, min(tokens, PARTITIONS)), ones(min(tokens, PARTITIONS), 1)
    total = nl.ndarray((1, features), dtype=nl.float32, buffer=nl.psum)
    for first in range(0, tokens, PARTITIONS):
        last = min(first + PARTITIONS, tokens)
        rows, gradient = load(x[first:last, :]), load(dy[first:last, :])
        inverse = inverse_norm(rows)
        normal, product = like(rows), like(rows)
        nisa.tensor_scalar(dst=normal, data=rows, op0=nl.multiply, operand0=inverse)
        nisa.tensor_tensor(dst=product, data1=gradient, data2=normal, op=nl.multiply)
        nisa.nc_matmul(dst=total, stationary=column[0 : last - first, :], moving=product, accumulate=first > 0)

        weighted, minus_mean = like(rows), like(inverse)
        nisa.tensor_tensor(dst=weighted, data1=gradient, data2=weights[0 : last - first, :], op=nl.multiply)
        nisa.tensor_tensor(dst=product, data1=weighted, data2=normal, op=nl.multiply)
        nisa.tensor_reduce(dst=minus_mean, op=nl.add, data=product, axis=1)
        nisa.tensor_scalar(dst=minus_mean, data=minus_mean, op0=nl.multiply, operand0=-1.0 / features)
        nisa.scalar_tensor_tensor(
            dst=normal, data=normal, op0=nl.multiply, operand0=minus_mean, op1=nl.add, operand1=weighted
        )
        nisa.tensor_scalar(dst=normal, data=normal, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=dx[first:last, :], src=normal)
    sums = like(total)
    nisa.tensor_copy(dst=sums, src=total)
    nisa.dma_copy(dst=dweight.reshape((1, features)), src=sums)
    return dx, dweight


# ---- SwiGLU --------------------------------------------------------------------------------------------------------


@nki.jit
def swiglu(gate_up: "1024x768:float32"):
    """silu(gate) * up. gate_up: [tokens, 2 n], gate in the first n columns; returns [tokens, n]."""
    tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
    y = nl.ndarray((tokens, width), dtype=nl.float32, buffer=nl.shared_hbm)
    for first in range(0, tokens, PARTITIONS):
        last = min(first + PARTITIONS, tokens)
        rows = load(gate_up[first:last, :])
        product = nl.ndarray((last - first, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=product, op=nl.silu, data=rows[:, 0:width])
        nisa.tensor_tensor(dst=product, data1=product, data2=rows[:, width : 2 * width], op=nl.multiply)
        nisa.dma_copy(dst=y[first:last, :], src=product)
    return y


@nki.jit
def swiglu_backward(gate_up: "1024x768:float32", dy: "1024x384:float32"):
    """Gradient of gate_up, [tokens, 2 n]. With s = sigmoid(gate): silu = gate s, silu' = s + silu (1 - s)."""
    tokens, width = gate_up.shape[0], gate_up.shape[1] // 2
    dx = nl.ndarray((tokens, 2 * width), dtype=nl.float32, buffer=nl.shared_hbm)
    for first in range(0, tokens, PARTITIONS):
        last = min(first + PARTITIONS, tokens)
        rows, gradient = load(gate_up[first:last, :]), load(dy[first:last, :])
        gate, up = rows[:, 0:width], rows[:, width : 2 * width]
        sigmoid, silu, rest, result = like(gradient), like(gradient), like(gradient), like(rows)
        nisa.activation(dst=sigmoid, op=nl.sigmoid, data=gate)
        nisa.tensor_tensor(dst=silu, data1=gate, data2=sigmoid, op=nl.multiply)
        nisa.tensor_tensor(dst=result[:, width : 2 * width], data1=silu, data2=gradient, op=nl.multiply)

        nisa.scalar_tensor_tensor(  # (s - 1) silu
            dst=rest, data=sigmoid, op0=nl.subtract, operand0=1.0, op1=nl.multiply, operand1=silu
        )
        nisa.tensor_tensor(dst=rest, data1=sigmoid, data2=rest, op=nl.subtract)
        nisa.tensor_tensor(dst=rest, data1=rest, data2=up, op=nl.multiply)
        nisa.tensor_tensor(dst=result[:, 0:width], data1=rest, data2=gradient, op=nl.multiply)
        nisa.dma_copy(dst=dx[first:last, :], src=result)
    return dx
