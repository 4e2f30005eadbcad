"""The programs of "About the NKI Compiler": what is Python, what is NKI, and what NKI says to Python.

"Neuron Kernel Interface (NKI) - Beta", the overview, has no programs.
"""

from __future__ import annotations

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from tests.support.both_executors import both, numbers, refused
from tests.support.kernel_parts import returned


# The document's kernel has a comment for a body, which is no Python; this one adds its arguments.
@nki.jit
def kernel(x, y, z):
    total, other = nl.load(x), nl.load(y)
    nisa.tensor_tensor(dst=total, data1=total, data2=other, op=nl.add)
    nisa.tensor_tensor(dst=total, data1=total, data2=nl.load(z), op=nl.add)
    return returned(total)


def a_function(x, y, z):
    return kernel(x, y, z)


def test_a_python_function_calls_a_kernel():
    x, y, z = numbers(3, 16, 32)
    assert np.array_equal(a_function(x, y, z), x + y + z)
    assert np.array_equal(both(kernel, x, y, z), x + y + z)


@pytest.mark.usefixtures("nki_0_6")
def test_python_that_nki_does_not_have_is_a_useful_error():
    def kernel(x):
        try:
            return nl.load(x)
        except ValueError:
            return x

    told = refused(kernel, numbers(4, 4))
    assert "[NKI-FE013] NKI has no exceptions to catch" in told and "test_nki_compiler.py" in told
    assert "fix: test beforehand with `if`" in told
