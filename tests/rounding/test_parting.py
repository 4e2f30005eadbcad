"""``nki accuracy --bisect``: kernels of one function, however they round and cut their work, and mutants of them."""

from __future__ import annotations

import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import KernelArgumentError
from nki.rounding.parting import compared
from nki.rounding.run import specialised
from tests.rounding.planted import normal, returned, tile_of


def softmax(dtype=nl.float32, shift=nl.maximum, columns=256, halves=1, scale=1.0):
    """A softmax over rows: of ``halves`` blocks of rows, with the sum over ``columns``, less any ``shift``."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        rows = 128 // halves
        for i in range(halves):
            t = nl.load(x[i * rows : i * rows + rows])
            most, e, total = (tile_of(x, shape=(rows, n)) for n in (1, 256, 1))
            weights = tile_of(x, dtype, shape=(rows, 256))
            nisa.tensor_reduce(dst=most, data=t, op=shift, axis=1)
            nisa.tensor_scalar(dst=e, data=t, op0=nl.subtract, operand0=most)
            nisa.activation(dst=weights, op=nl.exp, data=e, scale=scale)
            nisa.tensor_reduce(dst=total, data=weights[:, :columns], op=nl.add, axis=1)
            nisa.reciprocal(dst=total, data=total)
            y = tile_of(x, shape=(rows, 256))
            nisa.tensor_scalar(dst=y, data=weights, op0=nl.multiply, operand0=total)
            nisa.dma_copy(dst=out[i * rows : i * rows + rows], src=y)
        return out

    return kernel


def parted(one, other, *arrays):
    first, used, _ = specialised(one, arrays, {}, None, 0)
    second, _, _ = specialised(other, arrays, {}, None, 0)
    return compared(first, second, used)


@pytest.mark.parametrize("how", [{"dtype": nl.bfloat16}, {"shift": nl.minimum}, {"halves": 2}])
def test_rounding_order_and_tiles_part_nothing(how):
    found = parted(softmax(), softmax(**how), normal(128, 256))
    assert found.is_same and found.first is None and found.other is None
    assert "the same up to rounding" in str(found)


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"columns": 255}, "op=nl.add, axis=1)"),
        ({"scale": 1.0001}, "op=nl.exp"),
        ({"columns": 128, "dtype": nl.bfloat16}, "op=nl.add, axis=1)"),
    ],
)
def test_mutants_part_at_their_line(how, code):
    found = parted(softmax(), softmax(**how), normal(128, 256))
    assert not found.is_same and found.first is not None and found.other is not None
    assert code in found.first.code and code in found.other.code, str(found)


def test_a_wrong_window_parts_at_its_load():
    def kernel(start):
        @nki.jit
        def shifted(x):
            part, y = tile_of(x, shape=(128, 64)), tile_of(x, shape=(128, 64))
            nisa.dma_copy(dst=part, src=x[:, start : start + 64])
            nisa.activation(dst=y, op=nl.tanh, data=part)
            return returned(y)

        return shifted

    found = parted(kernel(0), kernel(1), normal(128, 128))
    assert found.first is not None and "nisa.dma_copy(dst=part" in found.first.code


def test_signatures_have_to_agree():
    @nki.jit
    def narrower(x):
        return returned(nl.load(x[:, :128]))

    with pytest.raises(KernelArgumentError, match="return different tensors"):
        parted(softmax(), narrower, normal(128, 256))
