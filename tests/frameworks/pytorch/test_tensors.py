"""Tensors and arrays that people trip on: borrowed, pinned, without data, read-only, of odd layouts."""

from __future__ import annotations

import jax.dlpack
import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.data import DataLoader

import nki
from nki.base.errors import (
    KernelArgumentError,
)
from tests.frameworks.kernels import add, scale_in_place, sum_and_scaled

A = torch.arange(24, dtype=torch.float32).reshape(4, 6)
B = A.flip(0) * 3 + 1


# DLPack


def test_borrowed_tensors_are_read_where_they_lie(launches):
    array = np.asarray(A).copy()
    tensor = torch.from_dlpack(array)
    out = add(tensor, tensor)
    assert torch.equal(out, A + A) and launches == [(array.ctypes.data, array.ctypes.data, out.data_ptr())]
    borrowed = np.from_dlpack(A)
    add(borrowed, borrowed)
    assert launches[1][:2] == (A.data_ptr(), A.data_ptr())


def test_results_are_lent_without_a_copy(launches):
    out = add(A, B)
    lent = np.from_dlpack(out)
    assert lent.ctypes.data == out.data_ptr() == launches[0][2] and np.array_equal(lent, np.asarray(A + B))
    array = add(np.asarray(A), np.asarray(B))
    assert torch.from_dlpack(array).data_ptr() == array.ctypes.data
    assert np.array_equal(jax.dlpack.from_dlpack(out), np.asarray(A + B))


def test_a_borrowed_array_is_changed_in_place():
    a = A.clone()
    scale_in_place(torch.from_dlpack(np.from_dlpack(a)))
    assert torch.equal(a, 2 * A)


class Lender:
    """An array of a library that this one does not know."""

    def __init__(self, tensor):
        self._tensor = tensor
        self.shape, self.dtype = tensor.shape, tensor.dtype

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


@pytest.mark.parametrize(
    "arguments",
    [(Lender(A), Lender(B)), (A, np.asarray(B)), (A, Lender(B))],
    ids=["foreign", "two frameworks", "one foreign"],
)
def test_arrays_of_another_library_are_refused_with_the_conversion(arguments):
    with pytest.raises(KernelArgumentError, match=r"numpy.from_dlpack\([ab]\), torch.from_dlpack\([ab]\) and"):
        add(*arguments)
    assert torch.equal(add(A, torch.from_dlpack(arguments[1])), A + B)


# Without data


def test_shapes_without_a_run(broken_launch):
    with torch.device("meta"):
        a = torch.empty(6, 4).t()
        total, scaled = sum_and_scaled(a, a)
    assert (total.shape, scaled.shape, total.stride()) == ((4, 6), (1, 6), (6, 1))
    assert total.device.type == "meta"
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(A)
        assert add(fake, fake).shape == (4, 6)


# Layouts


def test_negative_strides_are_changed_in_place():
    array = np.asarray(A).copy()
    scale_in_place(array[::-1, ::-2])
    expected = np.asarray(A).copy()
    expected[:, 1::2] *= 2
    np.testing.assert_array_equal(array, expected)


@pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning")
def test_batches_of_a_loader_that_pins(launches):
    """Pinned memory is the CPU's; on a machine without an accelerator PyTorch leaves batches as they are."""
    for batch in DataLoader(A, 2, pin_memory=True):
        assert torch.equal(add(batch, batch), 2 * batch)
        assert launches[-1][0] == batch.data_ptr()


def test_read_only_memory_is_read_and_not_written():
    array = np.asarray(A).copy()
    array.flags.writeable = False
    np.testing.assert_array_equal(add(array, array), 2 * array)
    with pytest.raises(KernelArgumentError, match=r"'a', an array that cannot be written to\n.*writable copy"):
        scale_in_place(array)
    assert np.array_equal(array, np.asarray(A))


def test_a_last_dimension_of_size_one_with_any_stride():
    """PyTorch calls such a tensor contiguous, and views its bytes only with stride 1."""
    a = A.to(torch.bfloat16).as_strided((4, 6, 1), (6, 1, 6))
    assert torch.equal(nki.simulate(add)(a, a), a + a)
