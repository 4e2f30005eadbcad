"""Kernels that look right to a weak test: ``nki.testing.verify`` must let none of them pass.

``CHEATS`` has for each one its reference in ``references.py``, the arguments, and the check that gives it away.
"""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

import nki
import nki.isa as nisa
import nki.language as nl


@dataclass(frozen=True)
class Cheat:
    kernel: Any
    reference: str
    arguments: tuple[Any, ...]
    check: str
    """The beginning of the name of a check that fails."""


CHEATS: dict[str, Cheat] = {}


def cheat(reference: str, *arguments: Any, check: str = "results") -> Any:
    def enter(kernel: Any) -> Any:
        CHEATS[kernel.func.__name__] = Cheat(kernel, reference, arguments, check)
        return kernel

    return enter


def output(x, columns=None, dtype=None):
    return nl.ndarray((x.shape[0], columns or x.shape[1]), dtype=dtype or x.dtype, buffer=nl.shared_hbm)


def filled(x, number):
    out = output(x)
    tile = nl.ndarray(x.shape, dtype=x.dtype)
    nisa.memset(tile, number)
    nl.store(out, tile)
    return out


def doubled(x, factor=2.0):
    out = output(x)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, factor)
    nl.store(out, tile)
    return out


def softmax_of(x):
    out = output(x)
    tile = nl.load(x)
    top, total = nl.ndarray((x.shape[0], 1), dtype=nl.float32), nl.ndarray((x.shape[0], 1), dtype=nl.float32)
    nisa.tensor_reduce(top, nl.maximum, tile, axis=-1)
    nisa.tensor_scalar(tile, tile, nl.subtract, top)
    nisa.activation(tile, nl.exp, tile)
    nisa.tensor_reduce(total, nl.add, tile, axis=-1)
    nisa.reciprocal(total, total)
    nisa.tensor_scalar(tile, tile, nl.multiply, total)
    nl.store(out, tile)
    return out


X = "64x96:float32"

# Results that need no work.


@cheat("softmax", "64x1024:float32", check="outputs not constant")
@nki.jit
def zeros(x):
    """Every result is at most 1 and most are near 1/1024: zeros are within 1e-2 of them."""
    return filled(x, 0.0)


@cheat("softmax", "64x1024:float32", check="outputs not constant")
@nki.jit
def the_same_number(x):
    return filled(x, 1.0 / x.shape[1])


@cheat("tanh", X, check="outputs no copy of an input")
@nki.jit
def copy_of_the_input(x):
    """tanh(x) is x for small x."""
    out = output(x)
    nisa.dma_copy(out, x)
    return out


@cheat("doubled", X, check="inputs unchanged")
@nki.jit
def changes_its_input(x):
    """A test that calls the reference afterwards compares with twice as much."""
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nl.store(x, tile)
    return x


ANSWERS = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float32) * 2


@cheat("doubled", X, check="outputs not constant")
@nki.jit
def answers_of_seed_0(x):
    """The right results of a test that draws from ``default_rng(0)``, as constants of the program."""
    out = output(x)
    nl.store(out, nl.load(nl.shared_constant(ANSWERS)))
    return out


# Work that is left out.


@cheat("biased", X, X, check="depends on input 1")
@nki.jit
def leaves_an_input_out(x, bias):
    """The bias is below any tolerance of float32."""
    out = output(x)
    nisa.dma_copy(out, x)
    return out


@cheat("softmax", X, check="outputs written")
@nki.jit
def half_of_the_output(x):
    """The second half is what memory holds: maybe the results of a correct kernel that ran before."""
    out = output(x)
    nisa.dma_copy(out[:32], softmax_of(x)[:32])
    return out


@cheat("row_means", "64x2000:float32")
@nki.jit
def last_column_left_out(x):
    """One term of 2000."""
    out = output(x, 1)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32)
    nisa.tensor_reduce(total, nl.add, nl.load(x)[:, : x.shape[1] - 1], axis=-1)
    nisa.tensor_scalar(total, total, nl.multiply, 1.0 / x.shape[1])
    nl.store(out, total)
    return out


@cheat("softmax", "{M}x96:float32")
@nki.jit
def last_row_left_out(x):
    """Rows behind the last whole tile are copies."""
    out = output(x)
    whole = x.shape[0] // 128 * 128
    for start in range(0, whole, 128):
        nisa.dma_copy(out[start : start + 128], softmax_of(x[start : start + 128]))
    if whole < x.shape[0]:
        nisa.dma_copy(out[whole:], x[whole:])
    return out


@cheat("product", "200x64:float32", "200x96:float32")
@nki.jit
def last_tile_left_out(a_t, b):
    out = nl.ndarray((a_t.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.ndarray((a_t.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, nl.load(a_t[:128]), nl.load(b[:128]))
    nl.store(out, nl.copy(total))
    return out


@cheat("product", "128x64:float32", "128x96:float32")
@nki.jit
def low_precision_within(a_t, b):
    """bfloat16 operands are four times as fast; the result is float32 all the same."""
    left = nl.copy(nl.load(a_t), dtype=nl.bfloat16)
    right = nl.copy(nl.load(b), dtype=nl.bfloat16)
    total = nl.ndarray((a_t.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(total, left, right)
    out = nl.ndarray((a_t.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.copy(total))
    return out


@cheat("softmax", X, check="dtypes of outputs")
@nki.jit
def low_precision_result(x):
    """A tolerance that follows from the result's dtype is then as wide as the kernel likes."""
    out = output(x, dtype=nl.float8_e5m2)
    nl.store(out, nl.copy(nl.load(softmax_of(x)), dtype=nl.float8_e5m2))
    return out


@cheat("clipped", X)
@nki.jit
def small_numbers_are_zero(x):
    """Below 1e-2 nothing is right: an absolute tolerance does not see it."""
    tile = nl.load(x)
    kept = nl.ndarray(x.shape, dtype=nl.float32)
    nisa.tensor_scalar(kept, tile, nl.greater, 1e-2)
    nisa.tensor_tensor(tile, tile, kept, nl.multiply)
    out = output(x)
    nl.store(out, tile)
    return out


@cheat("doubled", X)
@nki.jit
def right_for_usual_numbers(x):
    """Normal numbers lie below 6."""
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.minimum, 6.0, op1=nl.maximum, operand1=-6.0)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    out = output(x)
    nl.store(out, tile)
    return out


@cheat("doubled", X, check="results, special: inf")
@nki.jit
def right_for_finite_numbers(x):
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.minimum, 1.7e38, op1=nl.maximum, operand1=-1.7e38)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    nisa.tensor_scalar(tile, tile, nl.minimum, 3e38, op1=nl.maximum, operand1=-3e38)
    out = output(x)
    nl.store(out, tile)
    return out


@cheat("softmax", X)
@nki.jit
def first_row_everywhere(x):
    out = output(x)
    right = softmax_of(x)
    for row in range(x.shape[0]):
        nisa.dma_copy(out[row : row + 1], right[:1])
    return out


# Programs that depend on who asks.

CALLS: list[int] = []


@cheat("doubled", X, check="same program again")
@nki.jit
def right_the_first_time(x):
    """Host state: the program that is timed is another one."""
    CALLS.append(1)
    return doubled(x, 2.0 if len(CALLS) % 2 == 1 else 1.0)


@cheat("doubled", X, check="same program in a process that tests")
@nki.jit
def right_under_pytest(x):
    return doubled(x, 2.0 if "pytest" in sys.modules or "nki.testing" in sys.modules else 1.0)


@cheat("doubled", X, check="same program in a process that tests")
@nki.jit
def right_in_the_environment_of_a_test(x):
    return doubled(x, 2.0 if any(name.startswith("PYTEST_") for name in os.environ) else 1.0)


@cheat("doubled", X, check="same program in a process that tests")
@nki.jit
def right_for_this_caller(x):
    """Reads the frames of its callers."""
    frame, names = sys._getframe(), set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return doubled(x, 2.0 if "verify" in names else 1.0)


@cheat("doubled", "{M}x95:float32")
@nki.jit
def right_for_known_shapes(x):
    """A table of the shapes that tests have."""
    return doubled(x, 2.0 if x.shape[0] in (1, 64, 127, 128) else 1.0)


@cheat("doubled", X, check="same bits as nki.simulate")
@nki.jit
def right_without_the_simulator(x):
    """The eager simulator has its module in the stack; native code then differs from it."""
    frame, files = sys._getframe(), set()
    while frame is not None:
        files.add(frame.f_code.co_filename.rpartition("/")[2])
        frame = frame.f_back
    return doubled(x, 1.0 if "eager.py" in files else 2.0)


# Hands on the judge.


@cheat("doubled", X)
@nki.jit
def patches_the_reference(x):
    """Looks for the reference among all objects, and puts itself in its place."""
    for found in gc.get_objects():
        # The code of another test's function may want a closure.
        is_other = type(found) is FunctionType and found.__name__ == "doubled" and found.__module__ != __name__
        if is_other and not found.__closure__:
            found.__code__ = (lambda x: x).__code__
    return filled(x, 1.0)


@cheat("doubled", X)
@nki.jit
def patches_numpy(x):
    """Differences are zero, and random numbers are ones, from now on."""
    np.abs = np.absolute = lambda *a, **k: np.zeros(())
    np.random.default_rng = lambda *a: None
    nki.testing.judge.Judge._add_results = lambda *a: None
    return filled(x, 1.0)
