"""The same work elsewhere: transposes, views, tiles, loops on the device, two cores."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Pair, tensors
from tests.support.kernel_parts import column, copied, product, returned, transposed


@nki.jit
def transpose_by_tensor_engine(x):
    return returned(transposed(nl.load(x)))


@nki.jit
def transpose_by_dma(x):
    tile = nl.ndarray((x.shape[1], x.shape[0]), nl.float32)
    nisa.dma_transpose(tile, x)
    return returned(tile)


@nki.jit
def transpose_in_squares(x):
    """Squares of 32 x 32 on the Vector engine."""
    tile, out = nl.load(x), nl.ndarray((x.shape[1], x.shape[0]), nl.float32)
    for i in range(0, x.shape[0], 32):
        for j in range(0, x.shape[1], 32):
            square = tile[i : i + 32, j : j + 32]
            nisa.nc_transpose(out[j : j + 32, i : i + 32], square, engine=nisa.engine.vector)
    return returned(out)


@nki.jit
def transpose_by_identity(x):
    """A product with the identity."""
    unit = nl.shared_identity_matrix(x.shape[0], nl.float32)
    return returned(copied(product(nl.load(x), unit)))


@nki.jit
def tiles_by_slices(x):
    """2 x + 1 in tiles of 32 x 24."""
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    for i in range(0, x.shape[0], 32):
        for j in range(0, x.shape[1], 24):
            rows, columns = min(32, x.shape[0] - i), min(24, x.shape[1] - j)
            tile = nl.load(x[i : i + rows, j : j + columns])
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0, op1=nl.add, operand1=1.0)
            nl.store(out[i : i + rows, j : j + columns], tile)
    return out


@nki.jit
def tiles_by_grid(x):
    """2 (x + 0.5) in the tiles of a grid."""
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    source, target = nl.tiles(x, tile_shape=(40, 16)), nl.tiles(out, tile_shape=(40, 16))
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            tile = nl.load(source[i, j].data)
            nisa.tensor_scalar(tile, tile, nl.add, 0.5, op1=nl.multiply, operand1=2.0)
            nl.store(target[i, j].data, tile)
    return out


@nki.jit
def tiles_by_language(x):
    return returned(nl.add(nl.multiply(nl.load(x), 2.0), 1.0))


@nki.jit
def rows_unrolled(x):
    """The sum of rows, each times its number."""
    total = nl.zeros((1, x.shape[1]), nl.float32)
    for i in range(x.shape[0]):
        nisa.scalar_tensor_tensor(total, nl.load(x[i : i + 1]), nl.multiply, float(i), nl.add, total)
    return returned(total)


@nki.jit
def rows_by_device_loop(x):
    """A loop on the device; the row's number is a tile that counts."""
    total, row = nl.zeros((1, x.shape[1]), nl.float32), nl.ndarray((1, x.shape[1]), nl.float32)
    number = nl.zeros((1, 1), nl.float32)

    def body(i):
        nisa.dma_copy(row, x[nl.ds(i, 1)])
        nisa.scalar_tensor_tensor(total, row, nl.multiply, number, nl.add, total)
        nisa.tensor_scalar(number, number, nl.add, 1.0)

    nl.fori_loop(0, x.shape[0], body)
    return returned(total)


@nki.jit
def product_by_device_loop(a, b):
    """a.T @ b, 16 rows of both in each round."""
    total = nl.zeros((a.shape[1], b.shape[1]), nl.float32)
    left, right = nl.ndarray((16, a.shape[1]), nl.float32), nl.ndarray((16, b.shape[1]), nl.float32)

    def body(k):
        nisa.dma_copy(left, a[nl.ds(k * 16, 16)])
        nisa.dma_copy(right, b[nl.ds(k * 16, 16)])
        nisa.tensor_tensor(total, total, product(left, right), nl.add)

    nl.fori_loop(0, a.shape[0] // 16, body)
    return returned(total)


@nki.jit
def product_unrolled(a, b):
    total = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.psum)
    for k in range(0, a.shape[0], 32):
        nisa.nc_matmul(total, nl.load(a[k : k + 32]), nl.load(b[k : k + 32]))
    return returned(copied(total))


@nki.jit
def powers_by_device_loop(x):
    """The state times x, plus one, five times: Horner."""
    tile, state = nl.load(x), nl.ones(x.shape, nl.float32)

    def body(_):
        nisa.tensor_tensor(state, state, tile, nl.multiply)
        nisa.tensor_scalar(state, state, nl.add, 1.0)

    nl.fori_loop(0, 5, body)
    return returned(state)


@nki.jit
def powers_summed(x):
    """1 + x + x² + … + x⁵."""
    tile, total, power = nl.load(x), nl.ones(x.shape, nl.float32), nl.ones(x.shape, nl.float32)
    for _ in range(5):
        nisa.tensor_tensor(power, power, tile, nl.multiply)
        nisa.tensor_tensor(total, total, power, nl.add)
    return returned(total)


@nki.jit
def interleaved_by_views(a, b):
    """Columns of a and b in turn."""
    out = nl.ndarray((a.shape[0], 2 * a.shape[1]), nl.float32)
    nisa.tensor_copy(out[:, 0 : 2 * a.shape[1] : 2], nl.load(a))
    nisa.tensor_copy(out[:, 1 : 2 * a.shape[1] : 2], nl.load(b))
    return returned(out)


@nki.jit
def interleaved_by_dma(a, b):
    """One column after the other in HBM."""
    rows, width = a.shape
    out = nl.ndarray((rows, 2 * width), nl.float32, buffer=nl.shared_hbm)
    for i in range(width):
        nisa.dma_copy(out[:, 2 * i + 1 : 2 * i + 2], b[:, i : i + 1])
        nisa.dma_copy(out[:, 2 * i : 2 * i + 1], a[:, i : i + 1])
    return out


@nki.jit
def softmax_on_one_core(x):
    tile = nl.load(x)
    total = column(tile)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    return returned(tile)


@nki.jit
def softmax_on_two_cores(x):
    """Each core has half of the rows."""
    core, half = nl.program_id(0), x.shape[0] // 2
    out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x[core * half : (core + 1) * half])
    top, total = column(tile), column(tile)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=1, negate=True)
    nisa.activation_reduce(tile, nl.exp, tile, nl.add, total, bias=top)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    nl.store(out[core * half : (core + 1) * half], tile)
    return out


@nki.jit
def product_on_two_cores(a, b):
    """Each core has half of the inner dimension; they exchange what they have summed, and each stores half."""
    core, half = nl.program_id(0), a.shape[0] // 2
    rows = a.shape[1] // 2
    part = copied(product(nl.load(a[core * half : (core + 1) * half]), nl.load(b[core * half : (core + 1) * half])))
    other = nl.ndarray(part.shape, nl.float32)
    nisa.sendrecv(src=part, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    nisa.tensor_tensor(part, part, other, nl.add)
    out = nl.ndarray(part.shape, nl.float32, buffer=nl.shared_hbm)
    nl.store(out[core * rows : (core + 1) * rows], part[core * rows : (core + 1) * rows])
    return out


@nki.jit
def heads_on_two_cores(q, k, v):
    """(heads, length, width): each core has every second head."""
    heads, length, width = q.shape
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for h in range(nl.program_id(0), heads, 2):
        weights = nl.ndarray((length, length), nl.float32)
        total, mixed = column(weights), nl.ndarray((length, width), nl.float32)
        scores = product(transposed(nl.load(q[h])), transposed(nl.load(k[h])))
        nisa.activation_reduce(weights, nl.exp, scores, nl.add, total, scale=width**-0.5)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(mixed, product(transposed(weights), nl.load(v[h])), nl.multiply, total)
        nl.store(out[h], mixed)
    return out


@nki.jit
def heads_on_one_core(q, k, v):
    """The queries scaled, the weights divided, one head after the other."""
    heads, _length, width = q.shape
    out = nl.ndarray(q.shape, nl.float32, buffer=nl.shared_hbm)
    for h in range(heads):
        queries = transposed(nl.load(q[h]))
        nisa.tensor_scalar(queries, queries, nl.multiply, width**-0.5)
        scores = copied(product(queries, transposed(nl.load(k[h]))))
        top, total = column(scores), column(scores)
        nisa.tensor_reduce(top, nl.maximum, scores, axis=1)
        nisa.tensor_scalar(scores, scores, nl.subtract, top)
        nisa.activation_reduce(scores, nl.exp, scores, nl.add, total)
        nisa.reciprocal(total, total)
        nisa.tensor_scalar(scores, scores, nl.multiply, total)
        nl.store(out[h], copied(product(transposed(scores), nl.load(v[h]))))
    return out


X = tensors((64, 32))
TALL = tensors((64, 20), (64, 24))
SHIFT = ("softmax is the same for any shift",)
HEADS = tensors((4, 16, 16), (4, 16, 16), (4, 16, 16))
PAIRS = [
    Pair("transpose by DMA", "layouts", transpose_by_tensor_engine, transpose_by_dma, X),
    Pair("transpose in squares", "layouts", transpose_by_tensor_engine, transpose_in_squares, X),
    Pair("transpose by identity", "layouts", transpose_by_dma, transpose_by_identity, X),
    Pair("tiles of a grid", "layouts", tiles_by_slices, tiles_by_grid, tensors((50, 60))),
    Pair("tiles of the language", "layouts", tiles_by_grid, tiles_by_language, tensors((50, 60))),
    Pair("columns in turn", "layouts", interleaved_by_views, interleaved_by_dma, tensors((24, 10), (24, 10))),
    Pair("device loop over rows", "loops", rows_unrolled, rows_by_device_loop, tensors((12, 40))),
    Pair("device loop of products", "loops", product_unrolled, product_by_device_loop, TALL),
    Pair("device loop of powers", "loops", powers_summed, powers_by_device_loop, tensors((16, 24))),
    Pair("softmax on two cores", "cores", softmax_on_one_core, softmax_on_two_cores[2], X, identities=SHIFT),
    Pair("product on two cores", "cores", product_unrolled, product_on_two_cores[2], TALL),
    Pair("heads on two cores", "cores", heads_on_one_core, heads_on_two_cores[2], HEADS, identities=SHIFT),
]
