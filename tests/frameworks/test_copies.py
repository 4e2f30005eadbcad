"""Copies and pickles of kernels, alone and inside modules."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import nki

from .kernels import add, multiply

A = np.arange(24, dtype=np.float32).reshape(4, 6)


def _plain(a, b):
    return add(a, b)


renamed = nki.jit(_plain)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 6))
        self.combine = multiply
        self.two_cores = add[2]

    def forward(self, a):
        return self.combine(a, self.weight.detach())


def test_a_kernel_is_copied_and_pickled_as_a_function_is():
    assert copy.copy(add) is add and copy.deepcopy(add) is add
    assert copy.deepcopy(add[2]) is add[2]
    assert pickle.loads(pickle.dumps(add)) is add


@pytest.mark.filterwarnings("ignore:.*platform_target:nki.base.warning.NkiDeprecationWarning")
def test_kernels_that_derive_from_another_are_pickled_with_what_differs():
    scheduled = add[1].with_schedule([("b", "a")])
    checked = nki.jit(add.func, check=True)
    for kernel in (add[2], scheduled, nki.jit(add.func, platform_target="trn2"), checked, renamed):
        copied = pickle.loads(pickle.dumps(kernel))
        assert copied.func is kernel.func
        assert (copied.grid, copied.target, copied.schedule) == (kernel.grid, kernel.target, kernel.schedule)
        assert copied.check == kernel.check
    assert np.array_equal(pickle.loads(pickle.dumps(renamed))(A, A), A + A)


def test_a_kernel_in_a_function_has_no_name_to_pickle():
    @nki.jit
    def local(a, b):
        return add(a, b)

    assert np.array_equal(copy.deepcopy(local)(A, A), A + A)
    with pytest.raises((AttributeError, pickle.PicklingError), match="local"):
        pickle.dumps(local)


def test_modules_that_hold_kernels():
    layer, a = Layer(), torch.from_numpy(A)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    for other in (copy.deepcopy(layer), torch.load(file, weights_only=False)):
        assert other.combine is multiply and other.weight is not layer.weight
        assert other.two_cores.grid == (2,)
        assert torch.equal(other(a), a)


def test_another_process_loads_a_kernel():
    program = (
        "import pickle, numpy as np\n"
        f"kernel, a = pickle.loads({pickle.dumps((multiply[1], A))!r})\n"
        "assert np.array_equal(kernel(a, a), a * a)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1])
