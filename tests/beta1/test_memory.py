"""PSUM sums, block tensors, direct allocation, loops that Beta 1 traces once."""

from __future__ import annotations

import functools
import linecache
from typing import Any

import numpy as np
import pytest

import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
from neuronxcc import nki
from nki.base.errors import NkiError
from nki.base.warning import NkiWarning


@pytest.mark.parametrize("start", ["zeros", "ndarray", "first"])
def test_products_accumulate(both: Any, data: Any, start: str) -> None:
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((64, 96), dtype=np.float32, buffer=nl.shared_hbm)
        made = nl.ndarray if start == "ndarray" else nl.zeros
        acc = made((64, 96), np.float32, buffer=nl.psum)
        for k in nl.affine_range(3):
            left, right = nl.load(a[k]), nl.load(b[k])
            if start == "first" and k == 0:
                acc[...] = nisa.nc_matmul(left, right)
            elif k == 1:
                acc += nisa.nc_matmul(left, right)
            else:
                acc[0:64, 0:96] += nl.matmul(left, right, transpose_x=True)
        nl.store(out, acc)
        return out

    a, b = data(3, 32, 64), data(3, 32, 96)
    program = kernel.compile(a, b).kernel
    assert "memset" not in {inst.mnemonic for inst in program.instructions()}
    np.testing.assert_allclose(both(kernel, a, b), np.einsum("kpm,kpn->mn", a, b), rtol=1e-4, atol=1e-5)


def test_zeros_in_psum_that_no_product_overwrites(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((64, 2, 96), dtype=np.float32, buffer=nl.shared_hbm)
        acc = nl.zeros((64, 2, 96), np.float32, buffer=nl.psum)
        acc[:, 1, :] += nl.matmul(nl.load(a), nl.load(b), transpose_x=True)
        nl.store(out, acc)
        return out

    a, b = data(32, 64), data(32, 96)
    got = both(kernel, a, b)
    assert (got[:, 0] == 0).all()
    np.testing.assert_allclose(got[:, 1], a.T @ b, rtol=1e-4, atol=1e-5)


def test_a_product_added_to_a_tile_in_sbuf(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((64, 96), dtype=np.float32, buffer=nl.shared_hbm)
        total = nl.full((64, 96), 1.0, np.float32, buffer=nl.sbuf)
        total += nl.matmul(nl.load(a), nl.load(b), transpose_x=True)
        nl.store(out, total)
        return out

    a, b = data(32, 64), data(32, 96)
    np.testing.assert_allclose(both(kernel, a, b), a.T @ b + 1, rtol=1e-4, atol=1e-5)


def test_only_live_tiles_of_a_block_tensor_take_room(both: Any) -> None:
    @nki.jit
    def kernel(x):
        blocks = x.shape[0]
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((blocks, nl.par_dim(4), x.shape[2]), dtype=x.dtype, buffer=nl.sbuf)  # 640 KiB a partition
        for i in nl.affine_range(blocks):
            tiles[i] = nl.load(x[i])
            nl.store(out[i], nl.negative(tiles[i, :, :]))
        return out

    x = np.arange(40 * 4 * 4096, dtype=np.float32).reshape(40, 4, 4096)
    assert (both(kernel, x) == -x).all()


def test_blocks_of_blocks(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tiles = nl.zeros((2, 3, nl.par_dim(4), 8), dtype=x.dtype)
        p, f = nl.mgrid[0:4, 0:8]
        for i in nl.affine_range(2):
            row = tiles[i]
            for j in nl.affine_range(3):
                if (i + j) % 2:
                    row[j, p, f] = nl.load(x[i, j])
                nl.store(out[i, j], tiles[i, j])
        return out

    x = data(2, 3, 4, 8)
    odd = (np.arange(2)[:, None] + np.arange(3)) % 2
    assert (both(kernel, x) == x * odd[:, :, None, None]).all()


def _place(first, idx, pdim_size, fdim_size):
    return first, idx[0] * fdim_size


def test_direct_allocation(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        by_rule = nl.ndarray((2, nl.par_dim(32), 16), dtype=x.dtype,
                             buffer=ncc.sbuf.alloc(functools.partial(_place, 64)))  # fmt: skip
        modulo = nl.ndarray((4, nl.par_dim(32), 16), dtype=x.dtype,
                            buffer=ncc.sbuf.mod_alloc(base_addr=1024, num_free_tiles=(2,)))  # fmt: skip
        psum = nl.ndarray((4, nl.par_dim(16), 32), dtype=x.dtype,
                          buffer=ncc.psum.mod_alloc(base_bank=2, num_bank_tiles=(2,)))  # fmt: skip
        for i in nl.affine_range(4):
            modulo[i] = nl.load(x[i])
            psum[i] = nisa.nc_transpose(modulo[i])
            by_rule[i % 2] = nl.copy(nisa.nc_transpose(nl.copy(psum[i])))
            nl.store(out[i], by_rule[i % 2])
        return out

    x = data(4, 32, 16)
    assert (both(kernel, x) == x).all()
    placed = {t.name: t.address for t in kernel.compile(x).kernel.core.tensors if t.address is not None}
    assert placed["by_rule.1"] == (64, 64)
    assert placed["modulo.3"] == (0, 1024 + 64)
    assert placed["psum.3"] == (0, 3 * 2048)


def test_an_address_outside_the_memory(data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=1 << 20))
        tile[...] = nl.load(x)
        nl.store(out, tile)
        return out

    with pytest.raises(NkiError, match="'tile'"):
        kernel(data(4, 4))


def test_numbers_that_a_loop_changes_begin_each_round_anew(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 1), dtype=np.int32, buffer=nl.shared_hbm)
        traced, unrolled = 0, 0
        for _ in nl.affine_range(5):
            traced += 1
        for _ in nl.static_range(5):
            unrolled = unrolled + 1
        nl.store(out[0], nl.full((1, 1), traced, np.int32))
        nl.store(out[1], nl.full((1, 1), unrolled, np.int32))
        return out

    assert both(kernel, data(1, 1)).tolist() == [[1], [5]]


def test_loop_reduce(both: Any, data: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, 4, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        into = nl.zeros((4, 8), dtype=x.dtype)
        named = nl.zeros((4, 8), dtype=x.dtype)
        for i in nl.affine_range(3):
            tile = nl.load(x[i])
            into[...] = nl.loop_reduce(tile, op=np.add, loop_indices=[i])
            named = nl.loop_reduce(tile, op=np.maximum, loop_indices=[i])
        nl.store(out[0], into)
        nl.store(out[1], named)
        return out

    x = data(3, 4, 8)
    got = both(kernel, x)
    np.testing.assert_allclose(got[0], x.sum(0), rtol=1e-5, atol=1e-6)
    assert (got[1] == x.max(0)).all()


def test_directives_change_nothing(both: Any, data: Any) -> None:
    @ncc.enable_stack_allocator
    @ncc.skip_middle_end_transformations
    @nki.jit
    @ncc.force_auto_alloc
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        with ncc.no_reorder():
            tile = nl.load(x)
            nl.store(out, tile)
        return out

    x = data(4, 4)
    assert (both(kernel, x) == x).all()


def test_an_assignment_of_a_number_into_hbm(both: Any) -> None:
    @nki.jit
    def kernel(x):
        out = nl.ndarray((4,), dtype=nl.int32, buffer=nl.shared_hbm)
        for i in nl.affine_range(4):
            out[i] = 10 * i
        return out

    assert both(kernel, np.zeros((2, 2), np.float32)).tolist() == [0, 10, 20, 30]


@pytest.mark.parametrize(("count", "columns"), [(20, 3), (9, 512)], ids=["banks", "memory"])
def test_more_sums_than_psum_has(both: Any, data: Any, count: int, columns: int) -> None:
    """Sums of few columns share banks, and one sum is complete before the next one needs its bank: none is spilled."""

    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((count, 32, columns), dtype=np.float32, buffer=nl.shared_hbm)
        sums = nl.zeros((count, nl.par_dim(32), columns), np.float32, buffer=nl.psum)
        for k in nl.sequential_range(2):
            for j in nl.affine_range(count):
                sums[j] += nisa.nc_matmul(nl.load(a[k, j]), nl.load(b[k, j]))
        for j in nl.affine_range(count):
            nl.store(out[j], sums[j])
        return out

    a, b = data(2, count, 16, 32), data(2, count, 16, columns)
    want = np.einsum("kjpm,kjpn->jmn", a, b)
    np.testing.assert_allclose(both(kernel, a, b), want, rtol=1e-4, atol=1e-5)
    program = kernel.compile(a, b).kernel
    assert not [tensor for tensor in program.core.tensors if tensor.role == "spill"]


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_products_are_added_to_a_narrow_tile_of_psum(both: Any, data: Any, kind: str) -> None:
    """Each product is float32, and rounded when it is added; the first one overwrites a tile without contents."""

    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((3, 40, 60), dtype=nl.float32, buffer=nl.shared_hbm)
        left, right = nl.load(x), nl.load(y)
        narrow = getattr(nl, kind)
        filled, empty, part = (
            nl.zeros((40, 60), dtype=narrow, buffer=nl.psum),
            nl.ndarray((40, 60), dtype=narrow, buffer=nl.psum),
            nl.zeros((40, 60), dtype=narrow, buffer=nl.psum),
        )
        index = nl.arange(40)[:, None], nl.arange(60)[None, :]
        for _ in nl.affine_range(3):
            filled += nl.matmul(left, right, transpose_x=True)
            empty[...] += nisa.nc_matmul(left, right)
            part[index][index[1] < 7] += nisa.nc_matmul(left, right)
        for i, total in enumerate((filled, empty, part)):
            nl.store(out[i], total)
        return out

    x, y = data(100, 40), data(100, 60)
    with pytest.warns(NkiWarning, match=f"is {kind} in PSUM, where the Tensor engine adds float32"):
        filled, empty, part = both(kernel, x, y)
    narrow = np.dtype(getattr(nl, kind))
    product = x.T @ y
    total = np.zeros((40, 60), narrow)
    for _ in range(3):
        total = (total.astype(np.float32) + product).astype(narrow)
    unit = float(np.abs(total).max()) * float(2.0 ** (-10 if kind == "float16" else -7))
    assert np.abs(filled - total.astype(np.float32)).max() <= unit
    assert (empty == filled).all()
    assert (part == np.where(np.arange(60) < 7, filled, 0)).all()


@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (lambda: ncc.sbuf.mod_alloc(base_addr=400000), "base_addr=400000 of sbuf.mod_alloc puts block (0,) of 'tiles'"),
        (lambda: ncc.sbuf.mod_alloc(base_addr=-8), "at bytes -8 to 391 of each partition"),
        (lambda: ncc.sbuf.mod_alloc(base_addr=0, base_partition=64), "base_partition=64 of sbuf.mod_alloc"),
        (lambda: ncc.psum.mod_alloc(base_bank=7, num_bank_tiles=(4,)), "base_bank=7 of psum.mod_alloc puts block (1,)"),
        (lambda: ncc.psum.mod_alloc(base_bank=0, base_addr=64), "at byte 64 of a bank"),
        (lambda: ncc.sbuf.alloc(lambda idx, rows, size: (0, 10**5 * idx[0])), "the rule of sbuf.alloc puts block (3,)"),
    ],
)
def test_an_address_outside_of_its_memory_is_that_of_the_allocator(data: Any, buffer: Any, message: str) -> None:
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        tiles = nl.ndarray((4, nl.par_dim(128), 100), dtype=a.dtype, buffer=buffer())
        for i in nl.affine_range(4):
            tiles[i] = nisa.tensor_copy(nl.load(a[i]))
            nl.store(out[i], nl.add(tiles[i], tiles[i]))
        return out

    with pytest.raises(NkiError) as caught:
        kernel(data(4, 128, 100))
    assert message in str(caught.value)
    span = caught.value.span
    assert span is not None and "alloc(" in linecache.getline(span.file, span.line)


def test_tiles_are_called_like_what_receives_them(data: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def loaded(source):
        return nl.load(source)

    @nki.jit
    def kernel(source):
        out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
        first, second = loaded(source), nl.load(source)
        total = first + second
        total += nl.exp(first)
        tiles = {"scaled": second * 2.0, "rows": [-first, nl.zeros((8, 8), nl.float32)]}
        copied = nisa.tensor_copy(first)
        print(first.name, second.name, total.name, tiles["scaled"].name, tiles["rows"][0].name, copied.name)
        nl.store(out, total)
        return out

    kernel(data(8, 8))
    assert capsys.readouterr().out == "first second total scaled rows copied\n"


def test_loop_reduce_goes_on_only_in_a_variable(both: Any, data: Any) -> None:
    """An entry of a dictionary is no variable, although a variable may have the name of its key."""
    x = data(8, 8)

    @nki.jit
    def kernel(source):
        out = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.shared_hbm)
        tile = nl.load(source)
        total, sums = nl.exp(tile), {}
        for i in nl.affine_range(2):
            sums["total"] = nl.loop_reduce(tile, op=np.add, loop_indices=[i])
        nl.store(out, total)
        return out

    np.testing.assert_allclose(both(kernel, x), np.exp(x), rtol=1e-5)
