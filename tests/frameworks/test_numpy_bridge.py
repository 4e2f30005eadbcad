"""Kernels on NumPy arrays."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nki
from nki.base.errors import (
    DTypeError,
)
from nki.compilation.executable import Executable

from .kernels import add, moved, scale_in_place, sum_and_scaled

A = np.arange(24, dtype=np.float32).reshape(4, 6)
B = A[::-1] * 3 + 1


def test_read_only_inputs_are_not_copied(launches):
    a = A.copy()
    a.flags.writeable = False
    add(a, a)
    assert launches[0][:2] == (a.ctypes.data, a.ctypes.data)


def test_unaligned_arrays_are_copied(launches):
    """Native code is told that elements are aligned."""
    raw = np.zeros(A.nbytes + 1, np.uint8)
    a = raw[1:].view(np.float32).reshape(A.shape)
    a[:] = A
    assert not a.flags.aligned
    np.testing.assert_array_equal(add(a, B), A + B)
    assert launches[0][0] != a.ctypes.data and launches[0][0] % a.itemsize == 0


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_whole_numbers_of_64_bits_are_moved_and_no_instruction_computes_with_them(dtype):
    a = np.array([[2**62 + 1, 3]], dtype)
    assert moved(a).tobytes() == a.tobytes() and moved(a).dtype == dtype
    with pytest.raises(DTypeError, match=f"is {dtype}, which no compute instruction takes"):
        add(a, a)


def test_numpy_scalars_are_constants():
    _, scaled = sum_and_scaled(A, B, scale=np.float32(2.5))
    np.testing.assert_array_equal(scaled, A[:1] * 2.5)


def test_subclasses_that_are_plain_memory_are_taken(tmp_path):
    mapped = np.memmap(tmp_path / "a", np.float32, "w+", shape=A.shape)
    mapped[:] = A
    np.testing.assert_array_equal(add(mapped, B), A + B)


def test_inputs_are_released_after_the_call():
    a = A.copy()
    before = sys.getrefcount(a)
    add(a, a)
    assert sys.getrefcount(a) == before


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
