"""Kernels of Beta 1 in a FrameworkKernel and in copies: every grid computes what the direct call does."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import neuronxcc.nki as beta1
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import nki
from nki.base.beta1_errors import Beta1LaunchError
from nki.frameworks.backend_config import BackendConfig
from nki.frameworks.kernel_adapter import find
from nki.frameworks.numpy import NumPyTensors
from nki.harness.simulation import simulate_kernel

ROWS = np.arange(24 * 4 * 6, dtype=np.float32).reshape(24, 4, 6) + 1


def scaled(x):
    """Each program scales its rows by its number; all write into one output."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    number, count = nl.program_id(0), nl.num_programs(0)
    for axis in range(1, nl.program_ndim()):
        number, count = number * nl.num_programs(axis) + nl.program_id(axis), count * nl.num_programs(axis)
    each = x.shape[0] // count
    for row in range(each):
        nl.store(out[number * each + row], nl.load(x[number * each + row]) * float(2 + number))
    return out


def into_last(x, out):
    nl.store(out[nl.program_id(0)], nl.load(x[nl.program_id(0)]) * 2.0)


KERNEL, INTO = beta1.jit(scaled), beta1.jit(into_last)
# Powers of two and what they share: programs, then programs on two cores.
GRIDS = [(4,), 4, [4], (1,), (2,), (2, 3), (2, 3, 4), (16 // 4, 3, 2), (nl.nc(2),), (nl.nc(2), 3), (nl.nc(2) * 3,), ()]
GRIDS += [(nl.spmd_dim(nl.nc(2), 4),), (3, nl.nc(2))]


class NumPyKernel(NumPyTensors, beta1.FrameworkKernel):
    """Beta 1's class: a plain function is a kernel of Beta 1."""


class Today(NumPyTensors, nki.FrameworkKernel):
    """Today's class takes kernels of Beta 1 that are decorated."""


def run(kernel, *arrays):
    text, inputs, outputs = kernel.dump_config(*arrays)
    config = BackendConfig.decode(text)
    executable = find(config.binary)
    assert config.platform_target == executable.kernel.target == "trn2"
    results = [np.zeros(spec.shape, spec.dtype.dtype) for spec in executable.outputs]
    own = dict(zip(["x", "out"], arrays, strict=False))
    executable.launch([own[name].ctypes.data for name in inputs] + [r.ctypes.data for r in results])
    assert len(outputs) == 1
    return results[0]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize(
    "made",
    [
        lambda grid: Today(func=KERNEL, grid=grid),
        lambda grid: NumPyKernel(func=scaled, grid=grid),
        lambda grid: Today(func=KERNEL[grid] if grid != () else KERNEL),
    ],
    ids=["decorated", "plain", "launched"],
)
def test_every_grid_is_that_of_the_direct_call(made, grid):
    direct = KERNEL[grid] if grid != () else KERNEL
    expected = direct(ROWS)
    assert np.array_equal(run(made(grid), ROWS), expected)
    assert np.array_equal(nki.simulate(direct)(ROWS), expected)


COPIES = {
    "with_schedule, then a grid": lambda: KERNEL.with_schedule([])[4],
    "a grid, then with_schedule": lambda: KERNEL[4].with_schedule([]),
    "nki.jit": lambda: nki.jit(KERNEL[4]),
    "nki.jit with options": lambda: nki.jit(KERNEL[4], check=True),
    "beta1.jit": lambda: beta1.jit(KERNEL[4]),
    "beta1.jit with an option": lambda: beta1.jit(KERNEL[4], additional_compile_opt="--disable-dge"),
    "beta1.jit of a measured one": lambda: beta1.jit(beta1.baremetal(KERNEL)[4]),
    "copy": lambda: copy.copy(KERNEL[4]),
    "deepcopy": lambda: copy.deepcopy(KERNEL[4]),
    "FrameworkKernel": lambda: Today(func=KERNEL, grid=(4,)).kernel,
    "simulation": lambda: beta1.jit(KERNEL[4], mode="simulation"),
    "simulation, a grid": lambda: beta1.jit(KERNEL, mode="simulation").with_schedule([])[4],
}


@pytest.mark.parametrize("made", COPIES.values(), ids=COPIES)
def test_copies_keep_class_dialect_and_grid(made):
    kernel = made()
    assert type(kernel) is type(KERNEL) and kernel.chosen_target().name == "trn2"
    assert np.array_equal(kernel(ROWS), KERNEL[4](ROWS))


def test_a_copy_keeps_mode_and_configuration():
    simulated = beta1.jit(scaled, mode="simulation")
    assert simulated.with_schedule([]).mode == simulated[4].mode == "simulation"
    plain = nki.jit(nki.jit(lambda x: x, check=True))
    assert plain.check and nki.jit(plain[2]).grid == (2,)


def test_a_harness_counts_cores():
    shared = KERNEL[nl.nc(2)](ROWS)
    assert np.array_equal(simulate_kernel(KERNEL, [ROWS], lnc=2), shared)


@pytest.mark.parametrize("grid", [(24,), (nl.nc(2) * 12,)], ids=str)
def test_an_output_among_the_arguments(grid):
    expected = np.zeros_like(ROWS)
    INTO[grid](ROWS, expected)
    assert np.array_equal(expected, 2 * ROWS)
    assert np.array_equal(run(Today(func=INTO, grid=grid), ROWS, np.zeros_like(ROWS)), expected)


def test_a_wrong_grid():
    for grid in ((-1,), ("a",), (True,), 2.5):
        with pytest.raises(Beta1LaunchError, match="no positive number"):
            Today(func=KERNEL, grid=grid)


@pytest.mark.parametrize("made", COPIES.values(), ids=COPIES)
def test_copies_are_pickled(made):
    kernel = made()
    again = pickle.loads(pickle.dumps(kernel))
    assert (type(again), again.grid, again.mode) == (type(kernel), kernel.grid, kernel.mode)
    assert np.array_equal(again(ROWS), KERNEL[4](ROWS))


def test_it_is_pickled():
    kernel = Today(func=KERNEL, grid=(4,))
    assert np.array_equal(run(pickle.loads(pickle.dumps(kernel)), ROWS), KERNEL[4](ROWS))


def test_isa_of_beta1_in_a_plain_function():
    def doubled(x, out):
        tile = nisa.tensor_scalar(nl.load(x[nl.program_id(0)]), op0=np.multiply, operand0=2.0)
        nl.store(out[nl.program_id(0)], tile)

    assert np.array_equal(run(NumPyKernel(func=doubled, grid=(24,)), ROWS, ROWS * 0), 2 * ROWS)
