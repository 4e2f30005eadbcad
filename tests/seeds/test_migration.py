"""The programs of "NKI Migration Guide from Beta 1 to Beta 2", as kernels: the new ones run, the old ones are answered.

Where a program of the guide has a slip of the pen, the comment on its kernel says what was mended. Its programs of
run-time indices are in ``test_migration_dynamic.py``.
"""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.warning import NkiDeprecationWarning
from tests.support.both_executors import both, numbers, refused

# The documents still write `nl.affine_range`.
pytestmark = pytest.mark.filterwarnings("ignore:.*affine_range:nki.base.warning.NkiDeprecationWarning")


def finished(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# Background: NKI has a compiler


def test_python_around_the_decorator_and_nki_under_it():
    def a_function(x, y, z):
        return kernel(x, y, z), [type(v).__name__ for v in (x, y, z)]  # Python

    @nki.jit
    def kernel(x, y, z):
        tile = nl.load(x)
        for other in (y, z):
            nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(other), op=nl.add)
        return finished(tile)

    x, y, z = numbers(3, 8, 16)
    result, kinds = a_function(x, y, z)
    assert np.array_equal(result, x + y + z) and kinds == ["ndarray"] * 3


# New namespace, new APIs


def test_the_old_package_is_answered_with_the_new_imports(monkeypatch):
    old = types.ModuleType("neuronxcc.nki.isa")
    monkeypatch.setitem(sys.modules, "old_isa", old)

    def kernel(x):
        tile = nl.load(x)
        old.tensor_copy(tile, tile)
        return finished(tile)

    told = refused(kernel, numbers(4, 4))
    assert "[NKI-FE032] `old` comes from `neuronxcc`" in told
    assert "import nki.isa as nisa" in told


# All ISA functions require a destination parameter


def test_the_destination_is_a_parameter():
    def before(src):
        tile = nl.load(src)
        result = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
        result[...] = nisa.reciprocal(tile)
        return finished(result)

    # Mended: `src` stands behind a keyword there, which is no Python; it is `data`.
    def after(src):
        tile = nl.load(src)
        result = nl.ndarray(src.shape, dtype=src.dtype, buffer=nl.sbuf)
        nisa.reciprocal(dst=result[...], data=tile)
        return finished(result)

    x = np.abs(numbers(8, 16)) + 1
    assert "fix: write `nisa.reciprocal(dst=result, data=tile)`" in refused(before, x)
    np.testing.assert_allclose(both(after, x), 1 / x, rtol=1e-6)


# Dynamic control flow


def test_registers():
    # Mended: the functions are nisa's, and a register is moved to with its value.
    def kernel(x):
        index = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=index, src=x)
        first, second = nisa.register_alloc(3), nisa.register_alloc(None)
        nisa.register_move(second, 7)
        nisa.register_load(first, index)
        result = nl.ndarray((1, 2), dtype=nl.int32, buffer=nl.sbuf)
        nisa.register_store(result[:, 0:1], first)
        nisa.register_store(result[:, 1:2], second)
        return finished(result)

    assert both(kernel, np.array([[-5]], np.int32)).tolist() == [[-5, 7]]


def test_a_for_loop_with_a_bound_in_a_register():
    # Mended: register_alloc and register_load are nisa's, dynamic_range is nl's.
    def kernel(tensor):
        bound = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.dma_copy(dst=bound, src=tensor)
        upper_bound = nisa.register_alloc()
        nisa.register_load(upper_bound, bound)
        seen = nl.ndarray((1, 2), dtype=nl.int32, buffer=nl.sbuf)
        nisa.memset(dst=seen, value=0)
        for i in nl.dynamic_range(5, upper_bound, 2):
            nisa.register_store(seen[:, 0:1], i)
            nisa.tensor_scalar(dst=seen[:, 1:2], data=seen[:, 1:2], op0=nl.add, operand0=1)
        return finished(seen)

    with pytest.warns(NkiDeprecationWarning, match="fori_loop"):
        assert both(kernel, np.array([[12]], np.int32)).tolist() == [[11, 4]]
    with pytest.warns(NkiDeprecationWarning, match="fori_loop"):
        assert both(kernel, np.array([[5]], np.int32)).tolist() == [[0, 0]]


def test_a_while_loop_on_a_register():
    # As it stands there, with its NumPy dtype, but for register_alloc, which is nisa's; and with a body that does
    # something.
    def kernel(x):
        tile = nl.load(x)
        cond = nl.ndarray((1, 1), buffer=nl.sbuf, dtype=np.int32)
        reg = nisa.register_alloc(5)
        while reg:
            nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
            nisa.register_store(cond, reg)
            nisa.tensor_scalar(cond, cond, nl.add, -1)
            nisa.register_load(reg, cond)
        return finished(tile)

    x = numbers(4, 8)
    with pytest.warns(NkiDeprecationWarning) as caught:
        assert np.array_equal(both(kernel, x), 32 * x)
    told = " ".join(str(warning.message) for warning in caught)
    assert "nl.while_loop" in told and "write `nl.int32`" in told


# Update indexing syntax for mgrid and arange


def test_grids_of_indices_become_slices():
    def before(x):
        t = nl.load(x).reshape((128, 16, 64))
        i_p, if0, if1 = nl.mgrid[0:128, 0:8, 0:64]
        return finished(t[i_p, if0, if1])

    def after(x):
        t = nl.load(x).reshape((128, 16, 64))
        return finished(t[0:128, 0:8, 0:64])

    # Mended: `i_f1` is `if1`.
    def before_flat(x):
        t = nl.load(x)
        i_p, if0, if1 = nl.mgrid[0:128, 0:8, 0:64]
        return finished(t[i_p, if0 * 64 + if1])

    def after_flat(x):
        t = nl.load(x)
        return finished(t[0:128, 0 : 8 * 64])

    x = numbers(128, 16 * 64)
    for old in (before, before_flat):
        told = refused(old, x)
        assert "no longer has `mgrid`" in told and "then leave line" in told
    assert "write `return finished(t[0:128, 0:8, 0:64])`" in refused(before, x)
    assert np.array_equal(both(after, x), x.reshape(128, 16, 64)[:, :8])
    assert np.array_equal(both(after_flat, x), x[:, :512])


# Consistent control flow behavior


def test_loops_run_as_often_as_they_say(capsys):
    def counting(x):
        val = 0
        for _ in range(8):
            val += 1
        print(val)
        tile = nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=val)
        return finished(tile)

    def branching(x):
        val = 0
        for i in range(8):
            if i == 0:
                val = 1
            else:
                val = 2
        print(val)
        tile = nl.load(x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=val)
        return finished(tile)

    x = numbers(4, 8)
    assert np.array_equal(both(counting, x), x + np.float32(8))
    assert capsys.readouterr().out == "8\n8\n"
    assert np.array_equal(both(branching, x), x + np.float32(2))
    assert capsys.readouterr().out == "2\n2\n"


# Deprecation of masking


def test_masks_become_slices_that_end_in_time():
    def before(t):
        result = nl.ndarray(shape=(129, 513), dtype=t.dtype, buffer=nl.shared_hbm)
        for i in range(2):
            for j in range(2):
                i_p, i_f = nl.mgrid[0:128, 0:512]
                result[i_p + 128 * i, i_f + 512 * j] = nisa.tensor_copy(
                    t[i_p + 128 * i, i_f + 512 * j], mask=(i_p + 128 * i < 129) & (i_f + 512 * j < 513)
                )
        return result

    # Mended: `pstart` is `p_start`. Tensors of 129 rows are in HBM, which tensor_copy does not reach: DMA copies.
    def with_slices(t):
        result = nl.ndarray(shape=(129, 513), dtype=t.dtype, buffer=nl.shared_hbm)
        for i in range(2):
            p_start = i * 128
            p_end = min(129, p_start + 128)
            p = slice(p_start, p_end)
            for j in range(2):
                f_start = j * 512
                f_end = min(513, f_start + 512)
                f = slice(f_start, f_end)
                nisa.dma_copy(result[p, f], t[p, f])
        return result

    def inlined(t):
        result = nl.ndarray(shape=(129, 513), dtype=t.dtype, buffer=nl.shared_hbm)
        for p_start in range(0, 129, 128):
            p_end = min(129, p_start + 128)
            for f_start in range(0, 513, 512):
                f_end = min(513, f_start + 512)
                nisa.dma_copy(result[p_start:p_end, f_start:f_end], t[p_start:p_end, f_start:f_end])
        return result

    t = numbers(129, 513)
    told = refused(before, t)
    assert "no longer takes `mask`" in told
    place = "i * 128:min(i * 128 + 128, 129), j * 512:min(j * 512 + 512, 513)"
    assert f"fix: write `nisa.tensor_copy(dst=result[{place}], src=t[{place}])`" in told
    assert np.array_equal(both(with_slices, t), t) and np.array_equal(both(inlined, t), t)


# Improved allocation API


def test_addresses():
    def in_sbuf(a):
        a_result = nl.ndarray(dtype=a.dtype, shape=a.shape, name="result", address=(0, 128), buffer=nl.sbuf)
        nisa.dma_copy(dst=a_result, src=a)
        return finished(a_result)

    # Mended: the buffer is PSUM, or the address would be one of SBUF.
    def in_psum(a):
        bank_id = 3
        PSUM_BANK_SIZE = 2048
        psum_t = nl.ndarray(dtype=nl.bfloat16, shape=(128, 1024), address=(0, bank_id * PSUM_BANK_SIZE), buffer=nl.psum)
        nisa.tensor_copy(dst=psum_t, src=nl.load(a))
        copied = nl.ndarray(psum_t.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=copied, src=psum_t)
        return finished(copied)

    a = np.round(numbers(128, 1024) * 8)
    assert np.array_equal(both(in_sbuf, a), a) and np.array_equal(both(in_psum, a), a)


def test_modular_allocation_becomes_a_list_of_addresses():
    # Mended: a bracket that is missing, and the module that sb_mod is of.
    def before(k):
        num_512_tiles_cur_section, p_k, n_k, sca = 4, 64, 32, 1024
        k_loaded = nl.ndarray(
            (num_512_tiles_cur_section, nl.par_dim(p_k), n_k),
            dtype=nl.bfloat16,
            buffer=nl.sbuf.mod_alloc(base_addr=sca, num_free_tiles=(num_512_tiles_cur_section,)),
        )
        return finished(k_loaded)

    # Mended: a bracket that is missing.
    def after(k):
        num_512_tiles_cur_section, p_k, n_k, sca = 4, 64, 32, 1024
        k_loaded_tensors = []
        for i in range(num_512_tiles_cur_section):
            k_loaded_tensors.append(  # noqa: PERF401
                nl.ndarray(
                    shape=(p_k, n_k),
                    dtype=nl.bfloat16,
                    buffer=nl.sbuf,
                    address=(0, sca + (i % num_512_tiles_cur_section) * n_k * 2),
                )
            )
        out = nl.ndarray(k.shape, dtype=k.dtype, buffer=nl.shared_hbm)
        for i, tile in enumerate(k_loaded_tensors):
            nisa.dma_copy(dst=tile, src=k[i])
        for i, tile in enumerate(k_loaded_tensors):
            nisa.dma_copy(dst=out[i], src=tile)
        return out

    k = np.round(numbers(4, 64, 32) * 8)
    told = refused(before, k)
    assert "no longer has `par_dim`" in told and "no longer has `mod_alloc`" in told
    tile = "nl.ndarray((p_k, n_k), dtype=nl.bfloat16, buffer=nl.sbuf, "
    address = "address=(0, sca + (i % num_512_tiles_cur_section) * n_k * 2)"
    assert f"write `k_loaded = [{tile}{address}) for i in range(num_512_tiles_cur_section)]`" in told
    assert np.array_equal(both(after, k), k)


# Remove nki.jit decorator on sub-kernels


def test_decorators_at_the_call():
    def my_kernel(a):
        return finished(doubled(nl.load(a)))

    def doubled(tile):
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        return tile

    a = numbers(8, 16)
    kernel_decorated = nki.jit(my_kernel)
    assert np.array_equal(kernel_decorated(a), 2 * a)


def test_decorators_on_sub_kernels_may_stay():
    def doubled(tile):
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.add)
        return tile

    with pytest.warns(NkiDeprecationWarning, match="leave it out"):
        doubled = nki.jit(mode="trace")(doubled)
    a = numbers(8, 16)
    assert np.array_equal(both(lambda a: finished(doubled(nl.load(a))), a), 2 * a)


# Translation of block dimensions


def test_block_dimensions_become_lists():
    def before(x):
        t = nl.ndarray((8, nl.par_dim(128), 256), dtype=nl.float32, buffer=nl.sbuf)
        for i in range(8):
            nisa.dma_copy(t[i], x[i])
        return finished(t)

    # Mended: the shape is a tuple, the brackets of append, and `t_list` is `t_lst`.
    def after(x):
        t_lst = []
        for _ in range(8):
            t_lst.append(nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.sbuf))  # noqa: PERF401
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        for i in range(8):
            nisa.dma_copy(t_lst[i], x[i])
        for i in range(8):
            nisa.dma_copy(out[i], t_lst[i])
        return out

    x = numbers(8, 128, 256)
    written = "[nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.sbuf) for _ in range(8)]"
    assert f"fix: write `t = {written}`" in refused(before, x)
    assert np.array_equal(both(after, x), x)


def sb_blocks(inp):
    res = nl.ndarray(shape=(8, 128, 512), dtype=inp.dtype, buffer=nl.shared_hbm)
    add_buf = nl.ndarray(shape=(8, nl.par_dim(128), 512), dtype=inp.dtype, buffer=nl.sbuf)
    for i in range(8):
        nisa.dma_copy(add_buf[i], inp[i])
    for i in range(8):
        nisa.dma_copy(res[i], add_buf[i])
    return res


def sb_blocks_all_alive(inp):
    res = nl.ndarray(shape=(8, 128, 512), dtype=inp.dtype, buffer=nl.shared_hbm)
    add_buf = nl.ndarray(shape=(128, 8, 512), dtype=inp.dtype, buffer=nl.sbuf)
    for i in range(8):
        nisa.dma_copy(add_buf[0:128, i, 0:512], inp[i])
    for i in range(8):
        nisa.dma_copy(res[i], add_buf[0:128, i, 0:512])
    return res


def sb_blocks_one_alive(inp):
    res = nl.ndarray(shape=(8, 128, 512), dtype=inp.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(8):
        add_buf = nl.ndarray(shape=(128, 512), dtype=inp.dtype, buffer=nl.sbuf)
        nisa.dma_copy(add_buf[0:128, 0:512], inp[i])
        nisa.dma_copy(res[i], add_buf[0:128, 0:512])
    return res


def sb_blocks_migrated_incorrect(inp):
    """Slower, not wrong: each round waits for the tensor of the one before."""
    res = nl.ndarray(shape=(8, 128, 512), dtype=inp.dtype, buffer=nl.shared_hbm)
    add_buf = nl.ndarray(shape=(128, 512), dtype=inp.dtype, buffer=nl.sbuf)
    for i in range(8):
        nisa.dma_copy(add_buf[0:128, 0:512], inp[i])
        nisa.dma_copy(res[i], add_buf[0:128, 0:512])
    return res


@pytest.mark.parametrize("migrated", [sb_blocks_all_alive, sb_blocks_one_alive, sb_blocks_migrated_incorrect])
def test_block_dimensions_move_or_go(migrated):
    inp = numbers(8, 128, 512)
    assert np.array_equal(both(migrated, inp), inp)
    told = refused(sb_blocks, inp)
    written = "[nl.ndarray(shape=(128, 512), dtype=inp.dtype, buffer=nl.sbuf) for _ in range(8)]"
    assert "no longer has `par_dim`" in told and f"fix: write `add_buf = {written}`" in told


# Dynamic access pattern, as it was


def test_operators_on_tiles_and_indices_of_beta1_are_refused():
    def kernel(A, dynamic_idx):
        batch_idx = nl.multiply(nl.bitwise_and(nl.load(dynamic_idx), y=3), 128)
        result = nl.ndarray((128, 256), A.dtype, buffer=nl.shared_hbm)
        batch_idx[...] = 4
        i_p, i_f = nl.mgrid[0:128, 0:256]
        nisa.dma_copy(src=A[batch_idx, i_p, i_f], dst=result[...])
        return result

    told = refused(kernel, numbers(4, 128, 512), np.array([[1]], np.int32))
    assert "no longer has `mgrid`" in told
