"""Kernels on NumPy arrays."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki.base.errors import (
    ByteOrderError,
    DTypeError,
    EmptyTensorError,
    ScalarTensorError,
    TensorLayoutError,
    UnknownDTypeError,
)
from nki.compilation.executable import Executable

from .kernels import add, less, moved, scale_in_place, sum_and_scaled

A = np.arange(24, dtype=np.float32).reshape(4, 6)
B = A[::-1] * 3 + 1


def test_result_is_a_fresh_array():
    first, second = add(A, B), add(A, B)
    np.testing.assert_array_equal(first, A + B)
    assert first.dtype == np.float32 and first.flags.owndata and not np.shares_memory(first, second)


def test_contiguous_inputs_are_not_copied(launches):
    a, b = A.copy(), B.copy()
    out = add(a, b)
    assert launches == [(a.ctypes.data, b.ctypes.data, out.ctypes.data)]


def test_read_only_inputs_are_not_copied(launches):
    a = A.copy()
    a.flags.writeable = False
    add(a, a)
    assert launches[0][:2] == (a.ctypes.data, a.ctypes.data)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::-1],
        lambda x: x[:, ::-2],
        lambda x: x[1:, 1:],
        lambda x: np.broadcast_to(x[0], (4, 6)),
    ],
    ids=["transposed", "reversed", "negative-step", "slice", "broadcast"],
)
def test_other_strides_are_copied(view):
    a, b = view(A), view(B)
    np.testing.assert_array_equal(add(a, b), a + b)


def test_unaligned_arrays_are_copied(launches):
    """Native code is told that elements are aligned."""
    raw = np.zeros(A.nbytes + 1, np.uint8)
    a = raw[1:].view(np.float32).reshape(A.shape)
    a[:] = A
    assert not a.flags.aligned
    np.testing.assert_array_equal(add(a, B), A + B)
    assert launches[0][0] != a.ctypes.data and launches[0][0] % a.itemsize == 0


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.uint16, np.float16, ml_dtypes.bfloat16])
def test_dtypes_of_nki(dtype):
    a = np.ones((3, 4), dtype)
    out = add(a, a)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.astype(np.float32), 2)


def test_bool_results():
    assert less(A, B).dtype == np.bool_
    np.testing.assert_array_equal(less(A, B), A < B)


def test_several_results_and_constants():
    total, scaled = sum_and_scaled(A, b=B, scale=3.0)
    np.testing.assert_array_equal(total, A + B)
    np.testing.assert_array_equal(scaled, A[:1] * 3)
    assert isinstance(sum_and_scaled(A, B), tuple)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "object", "U3", "M8[s]"])
def test_dtypes_that_nki_lacks_are_refused_by_name(dtype):
    a = np.zeros((2, 2), dtype)
    with pytest.raises(UnknownDTypeError) as caught:
        add(a, a)
    assert str(a.dtype) in str(caught.value)


def test_the_refusal_says_what_to_convert_to():
    with pytest.raises(UnknownDTypeError, match=r"np\.float32"):
        add(np.zeros((2, 2), np.float64), A)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_whole_numbers_of_64_bits_are_moved_and_no_instruction_computes_with_them(dtype):
    a = np.array([[2**62 + 1, 3]], dtype)
    assert moved(a).tobytes() == a.tobytes() and moved(a).dtype == dtype
    with pytest.raises(DTypeError, match=f"is {dtype}, which no compute instruction takes"):
        add(a, a)


@pytest.mark.parametrize("dtype", ["f4", "i2", "f8"])
def test_foreign_byte_order_is_refused(dtype):
    a = np.zeros((2, 2), np.dtype(dtype).newbyteorder())
    with pytest.raises(ByteOrderError, match=r"another machine"):
        add(a, a)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0)])
def test_empty_arrays_are_refused(shape):
    a = np.zeros(shape, np.float32)
    with pytest.raises(EmptyTensorError, match=r"no elements"):
        add(a, a)


def test_rank_zero_is_refused():
    with pytest.raises(ScalarTensorError, match=r"reshape it to \(1,\)"):
        add(np.array(1, np.float32), np.array(1, np.float32))


def test_numpy_scalars_are_constants():
    _, scaled = sum_and_scaled(A, B, scale=np.float32(2.5))
    np.testing.assert_array_equal(scaled, A[:1] * 2.5)


def test_masked_arrays_are_refused():
    with pytest.raises(TensorLayoutError, match=r"filled"):
        add(np.ma.masked_array(A, A > 3), A)


def test_subclasses_that_are_plain_memory_are_taken(tmp_path):
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", shape=A.shape)
    mapped[:] = A
    np.testing.assert_array_equal(add(mapped, B), A + B)


def test_errors_of_a_launch_reach_the_caller(broken_launch):
    with pytest.raises(RuntimeError, match=r"on purpose"):
        add(A, B)


def test_calls_from_several_threads():
    arrays = [np.full((64, 64), i, np.float32) for i in range(32)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda a: add(a, a), arrays))
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, 2 * i)


def test_inputs_are_released_after_the_call():
    a = A.copy()
    before = sys.getrefcount(a)
    add(a, a)
    assert sys.getrefcount(a) == before


@nki.jit
def overwrite_first(x, y):
    t = nl.load(y)
    nisa.dma_copy(x, nl.full(x.shape, 7.0, dtype=nl.float32, buffer=nl.sbuf))
    again = nl.load(y)
    out = nl.ndarray(y.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    both = nl.ndarray(y.shape, dtype=nl.float32)
    nisa.tensor_tensor(both, t, again, nl.add)
    nl.store(out, both)
    return x, out


@nki.jit
def overwrite_both(x, y):
    nisa.dma_copy(x, nl.full(x.shape, 1.0, dtype=nl.float32, buffer=nl.sbuf))
    nisa.dma_copy(y, nl.full(y.shape, 2.0, dtype=nl.float32, buffer=nl.sbuf))
    return y, x


ALIASES = {
    "the same array": lambda: (lambda a: (a, a))(np.ones((4, 4), np.float32)),
    "overlapping": lambda: (lambda b: (b[:16].reshape(4, 4), b[8:].reshape(4, 4)))(np.ones(24, np.float32)),
    "one strided": lambda: (lambda b: (b[:4], b[::2]))(np.ones((8, 4), np.float32)),
    "the other strided": lambda: (lambda b: (b[::2], b[:4]))(np.ones((8, 4), np.float32)),
    "apart": lambda: (np.ones((4, 4), np.float32), np.ones((4, 4), np.float32)),
}


@pytest.mark.parametrize("kernel", [overwrite_first, overwrite_both], ids=["one", "both"])
@pytest.mark.parametrize("arrays", ALIASES.values(), ids=ALIASES)
def test_arguments_that_share_memory_are_tensors_of_their_own(kernel, arrays):
    native, simulated = arrays(), arrays()
    got, want = kernel(*native), nki.simulate(kernel)(*simulated)
    for one, other in zip((*got, *native), (*want, *simulated), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_changed_array_that_shares_no_memory_is_changed_in_place(launches):
    x, y = ALIASES["apart"]()
    _, out = overwrite_first(x, y)
    assert launches == [(x.ctypes.data, y.ctypes.data, x.ctypes.data, out.ctypes.data)]


def test_a_subclass_is_what_its_memory_is():
    class Liar(np.ndarray):
        @property
        def shape(self):
            return (64, 64)

    a = A.copy().view(Liar)
    np.testing.assert_array_equal(np.asarray(add(a, B)), A + B)
    np.testing.assert_array_equal(np.asarray(nki.simulate(add)(a, B)), A + B)


def test_the_main_thread_shares_the_threads_of_pytorch(monkeypatch):
    """Beside PyTorch's threads, which keep the cores busy; another Python thread has no threads of PyTorch's yet."""
    asked = []
    launch = Executable.launch

    def record(self, pointers, floats=(), from_torch=False):
        asked.append(from_torch)
        launch(self, pointers, floats, from_torch)

    monkeypatch.setattr(Executable, "launch", record)
    for is_imported in (True, False):
        with monkeypatch.context() as patch:
            if is_imported:
                patch.setitem(sys.modules, "torch", sys.modules.get("torch"))
            else:
                patch.delitem(sys.modules, "torch", raising=False)
            add(A, B)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(add, A, B).result()
    assert asked == [True, False, False, False]


def test_a_changed_input_asks_for_the_same_threads(monkeypatch):
    asked = []
    fake = lambda self, pointers, floats=(), from_torch=False: asked.append(from_torch)  # noqa: E731
    monkeypatch.setattr(Executable, "launch", fake)
    monkeypatch.setitem(sys.modules, "torch", sys.modules.get("torch"))
    scale_in_place(A.copy())
    assert asked == [True]
