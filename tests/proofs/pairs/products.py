"""Products of matrices: tiled, in other orders, split over the inner dimension, their scales and biases elsewhere."""

from __future__ import annotations

import nki
import nki.isa as nisa
import nki.language as nl
from tests.proofs.pair import Input, Pair, tensors
from tests.support.kernel_parts import copied, product, returned, transposed


@nki.jit
def split_in_psum(a, b):
    """a.T @ b, the inner dimension in parts that PSUM adds up."""
    total = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, a.shape[0], 64):
        nisa.nc_matmul(total, nl.load(a[start : start + 64]), nl.load(b[start : start + 64]))
    return returned(copied(total))


@nki.jit
def split_in_sbuf(a, b):
    """Each part's product leaves PSUM, and the Vector engine adds them up."""
    total = nl.zeros((a.shape[1], b.shape[1]), dtype=nl.float32)
    for start in range(0, a.shape[0], 48):
        part = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(part, nl.load(a[start : start + 48]), nl.load(b[start : start + 48]), accumulate=False)
        nisa.tensor_tensor(total, total, part, nl.add)
    return returned(total)


@nki.jit
def split_backwards(a, b):
    """The last part first, and the moving and stationary operands exchanged."""
    total = nl.ndarray((b.shape[1], a.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for number in range(3):
        start = a.shape[0] - 64 * (number + 1)
        nisa.nc_matmul(total, nl.load(b[start : start + 64]), nl.load(a[start : start + 64]), accumulate=number > 0)
    return returned(transposed(copied(total)))


@nki.jit
def by_rows(a, b):
    """Tiles of 16 x 20 of the result, row after row."""
    left, right = nl.load(a), nl.load(b)
    rows, columns = a.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in range(0, rows, 16):
        for j in range(0, columns, 20):
            nl.store(out[i : i + 16, j : j + 20], copied(product(left[:, i : i + 16], right[:, j : j + 20])))
    return out


@nki.jit
def by_columns(a, b):
    """Strips of 24 columns, and in each tiles of 32 rows into one part of PSUM after the other."""
    rows, columns = a.shape[1], b.shape[1]
    left = nl.load(a)
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for j in range(0, columns, 24):
        width = min(24, columns - j)
        strip = nl.load(b[:, j : j + width])
        for i in range(0, rows, 32):
            height = min(32, rows - i)
            psum = nl.ndarray((height, width), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(psum, left[:, i : i + height], strip)
            nl.store(out[i : i + height, j : j + width], copied(psum))
    return out


@nki.jit
def left_first(a, b, c):
    """(a b) c, with a given as its transpose."""
    first = copied(product(nl.load(a), nl.load(b)))
    return returned(copied(product(transposed(first), nl.load(c))))


@nki.jit
def right_first(a, b, c):
    """a (b c)."""
    second = copied(product(transposed(nl.load(b)), nl.load(c)))
    return returned(copied(product(nl.load(a), second)))


@nki.jit
def sum_of_products(a, b, c):
    """a b + a c, both into one place of PSUM."""
    left = nl.load(a)
    total = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, left, nl.load(b), accumulate=False)
    nisa.nc_matmul(total, left, nl.load(c), accumulate=True)
    return returned(copied(total))


@nki.jit
def product_of_sum(a, b, c):
    """a (b + c)."""
    right = nl.load(b)
    nisa.tensor_tensor(right, right, nl.load(c), nl.add)
    return returned(copied(product(nl.load(a), right)))


@nki.jit
def scaled_operands(a, b):
    """(a / 4) (3 b)."""
    left, right = nl.load(a), nl.load(b)
    nisa.tensor_scalar(left, left, nl.multiply, 0.25)
    nisa.activation(right, nl.copy, right, scale=3.0)
    return returned(copied(product(left, right)))


@nki.jit
def scaled_result(a, b):
    """3 / 4 (a b), while the result leaves PSUM."""
    total = product(nl.load(a), nl.load(b))
    out = nl.ndarray(total.shape, dtype=nl.float32)
    nisa.activation(out, nl.copy, total, scale=0.75)
    return returned(out)


@nki.jit
def outer_products(a, b):
    """One row of both operands at a time."""
    total = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    for k in range(a.shape[0]):
        nisa.nc_matmul(total, nl.load(a[k : k + 1]), nl.load(b[k : k + 1]))
    return returned(copied(total))


@nki.jit
def dot_products(a, b):
    """Without the Tensor engine: column i of a scales row i of b, and the rows are added up."""
    left = transposed(nl.load(a))
    wide = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32)
    total = nl.zeros(wide.shape, dtype=nl.float32)
    for k in range(a.shape[0]):
        for row in range(a.shape[1]):
            nisa.dma_copy(wide[row : row + 1], b[k : k + 1])
        nisa.scalar_tensor_tensor(total, wide, nl.multiply, left[:, k : k + 1], nl.add, total)
    return returned(total)


@nki.jit
def bias_added(a, b, bias):
    """a b + bias, the bias on every partition."""
    wide = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32)
    for row in range(a.shape[1]):
        nisa.dma_copy(wide[row : row + 1], bias)
    total = product(nl.load(a), nl.load(b))
    nisa.tensor_tensor(wide, wide, total, nl.add)
    return returned(wide)


@nki.jit
def bias_as_row(a, b, bias):
    """A row of ones times the bias is one more step of the inner dimension."""
    inner, rows = a.shape
    left, right = nl.ones((inner + 1, rows), nl.float32), nl.ndarray((inner + 1, b.shape[1]), nl.float32)
    nisa.dma_copy(left[0:inner], a)
    nisa.dma_copy(right[0:inner], b)
    nisa.dma_copy(right[inner : inner + 1], bias)
    return returned(copied(product(left, right)))


@nki.jit
def residual_by_vector(a, b, residual):
    total = product(nl.load(a), nl.load(b))
    kept = nl.load(residual)
    nisa.tensor_tensor(kept, total, kept, nl.add)
    return returned(kept)


@nki.jit
def residual_by_identity(a, b, residual):
    """The identity times the residual, added in PSUM."""
    rows = a.shape[1]
    unit = nl.shared_identity_matrix(rows, nl.float32)
    total = nl.ndarray((rows, b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, unit, nl.load(residual), accumulate=False)
    nisa.nc_matmul(total, nl.load(a), nl.load(b), accumulate=True)
    return returned(copied(total))


@nki.jit
def adapter_merged(x, w, down, up):
    """x (w + down up): the weights of an adapter added to the weights. x and down are given as transposes."""
    weights = nl.load(w)
    low = product(nl.load(down), nl.load(up))
    nisa.tensor_tensor(weights, weights, low, nl.add)
    return returned(copied(product(nl.load(x), weights)))


@nki.jit
def adapter_apart(x, w, down, up):
    """x w + (x down) up, both in one place of PSUM."""
    tokens = nl.load(x)
    total = nl.ndarray((x.shape[1], w.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, tokens, nl.load(w), accumulate=False)
    narrow = copied(product(transposed(nl.load(down)), tokens))
    nisa.nc_matmul(total, narrow, nl.load(up), accumulate=True)
    return returned(copied(total))


@nki.jit
def dequantised_operands(a, b, row_scale, column_scale):
    """int8 operands times their scales, then the product; a (n, k) and b (k, m)."""
    left, right = nl.load(a, dtype=nl.float32), nl.load(b, dtype=nl.float32)
    wide = nl.ndarray(b.shape, dtype=nl.float32)
    for k in range(b.shape[0]):
        nisa.dma_copy(wide[k : k + 1], column_scale)
    nisa.tensor_scalar(left, left, nl.multiply, nl.load(row_scale))
    nisa.tensor_tensor(right, right, wide, nl.multiply)
    return returned(copied(product(transposed(left), right)))


@nki.jit
def dequantised_result(a, b, row_scale, column_scale):
    """The product of the integers, then a scale for each row and each column."""
    total = product(transposed(nl.load(a, dtype=nl.float32)), nl.load(b, dtype=nl.float32))
    wide = nl.ndarray((a.shape[0], b.shape[1]), dtype=nl.float32)
    for row in range(a.shape[0]):
        nisa.dma_copy(wide[row : row + 1], column_scale)
    nisa.scalar_tensor_tensor(wide, total, nl.multiply, nl.load(row_scale), nl.multiply, wide)
    return returned(wide)


@nki.jit
def in_float32(a, b):
    return returned(copied(product(nl.load(a), nl.load(b))))


@nki.jit
def in_bfloat16(a, b):
    """The operands are rounded to bfloat16 on their way in."""
    left, right = nl.load(a, dtype=nl.bfloat16), nl.load(b, dtype=nl.bfloat16)
    total = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    half = b.shape[1] // 2
    nisa.nc_matmul(total[:, 0:half], left, right[:, 0:half])
    nisa.nc_matmul(total[:, half : 2 * half], left, right[:, half : 2 * half])
    return returned(copied(total))


@nki.jit
def vector_by_tensor_engine(matrix, vector):
    """matrix @ vector, for a matrix (n, k) and a vector (1, k)."""
    turned = transposed(nl.load(matrix))
    tall = nl.ndarray((matrix.shape[1], 1), dtype=nl.float32)
    nisa.dma_copy(tall, vector)
    return returned(copied(product(turned, tall)))


@nki.jit
def vector_by_vector_engine(matrix, vector):
    tile = nl.load(matrix)
    wide, total = nl.ndarray(matrix.shape, nl.float32), nl.ndarray((matrix.shape[0], 1), nl.float32)
    for row in range(matrix.shape[0]):
        nisa.dma_copy(wide[row : row + 1], vector)
    nisa.tensor_tensor(tile, tile, wide, nl.multiply)
    nisa.tensor_reduce(total, nl.add, tile, axis=1)
    return returned(total)


@nki.jit
def tensor_engine_transpose(a, b):
    """a @ b for a (n, k), turned by the Tensor engine."""
    return returned(copied(product(transposed(nl.load(a)), nl.load(b))))


@nki.jit
def dma_transpose(a, b):
    """a @ b for a (n, k), turned on its way in."""
    left = nl.ndarray((a.shape[1], a.shape[0]), dtype=nl.float32)
    nisa.dma_transpose(left, a)
    return returned(copied(product(left, nl.load(b))))


@nki.jit
def large_by_rows(a, b):
    """512 x 512 x 512: for each 128 rows of the result all of the columns."""
    inner, rows = a.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    right = [nl.load(b[k : k + 128]) for k in range(0, inner, 128)]
    for i in range(0, rows, 128):
        total = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
        for k in range(0, inner, 128):
            nisa.nc_matmul(total, nl.load(a[k : k + 128, i : i + 128]), right[k // 128])
        nl.store(out[i : i + 128], copied(total))
    return out


@nki.jit
def large_by_blocks(a, b):
    """The inner dimension outside, blocks of 128 x 256, and sums in SBUF."""
    inner, rows = a.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    sums = [(i, j, nl.zeros((128, 256), nl.float32)) for i in range(rows // 128) for j in range(columns // 256)]
    for k in range(0, inner, 128):
        left, right = nl.load(a[k : k + 128]), nl.load(b[k : k + 128])
        for i, j, total in sums:
            part = product(left[:, 128 * i : 128 * (i + 1)], right[:, 256 * j : 256 * (j + 1)])
            nisa.tensor_tensor(total, total, part, nl.add)
    for i, j, total in sums:
        nl.store(out[128 * i : 128 * (i + 1), 256 * j : 256 * (j + 1)], total)
    return out


A_B = tensors((192, 40), (192, 50))
SMALL = tensors((24, 32), (24, 40))
SUMS = ("sums in any order",)
SCALED = (
    Input((16, 24), "int8", -100, 100),
    Input((24, 20), "int8", -100, 100),
    Input((16, 1), "float32", 0.01, 0.1),
    Input((1, 20), "float32", 0.01, 0.1),
)
ADAPTER = tensors((24, 16), (24, 20), (4, 24), (4, 20))
BIAS = (*SMALL, Input((1, 40)))
PAIRS = [
    Pair("product split in SBUF", "products", split_in_psum, split_in_sbuf, A_B, identities=SUMS),
    Pair("product split backwards", "products", split_in_psum, split_backwards, A_B, identities=SUMS),
    Pair("product by rows and columns", "products", by_rows, by_columns, tensors((24, 48), (24, 60))),
    Pair("product of three", "products", left_first, right_first, tensors((20, 16), (20, 24), (24, 28))),
    Pair("product of a sum", "products", sum_of_products, product_of_sum, tensors((20, 16), (20, 24), (20, 24))),
    Pair("product with its scale elsewhere", "products", scaled_operands, scaled_result, SMALL),
    Pair("outer products", "products", in_float32, outer_products, SMALL, identities=SUMS),
    Pair("dot products", "products", in_float32, dot_products, tensors((12, 8), (12, 16)), identities=SUMS),
    Pair("bias as a row", "products", bias_added, bias_as_row, BIAS),
    Pair("residual by identity", "products", residual_by_vector, residual_by_identity, (*SMALL, Input((32, 40)))),
    Pair("adapter merged", "products", adapter_merged, adapter_apart, ADAPTER),
    Pair("quantised product", "products", dequantised_operands, dequantised_result, SCALED),
    Pair("product in bfloat16", "products", in_float32, in_bfloat16, SMALL, bound=0.02, sense="rounding"),
    Pair(
        "matrix times vector", "products", vector_by_tensor_engine, vector_by_vector_engine, tensors((16, 24), (1, 24))
    ),
    Pair("transposes by DMA", "products", tensor_engine_transpose, dma_transpose, tensors((32, 16), (16, 20))),
    Pair("product 512", "products", large_by_rows, large_by_blocks, tensors((512, 512), (512, 512)), slow=True),
]
