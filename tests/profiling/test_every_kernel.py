"""Properties of every profile, over kernels of this repository, targets that have what they need, and two cores."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from examples.instructions import control, elementwise, movement, products, randomness, reductions, searches
from examples.llama import attention, kernels
from examples.minilm.kernels import feed_forward_block
from nki.describe.samples import generations
from nki.ir.instruction import REGISTRY
from nki.jit import Kernel
from tests.kernels import test_corpus as corpus
from tests.support.profile_invariants import violations

MODULES = (control, elementwise, movement, products, randomness, reductions, searches)
SINGLE = [(module, name) for module in MODULES for name in module.ARGUMENTS]
"""The example kernel of each instruction."""
LLAMA = [kernel for module in (kernels, attention) for kernel in vars(module).values() if isinstance(kernel, Kernel)]
"""Kernels with parameters that say their shapes."""
FEED_FORWARD = ("256x384", "384x1536", "1536", "1536x384", "384", "384", "384")
LAUNCHES = [("trn2", 1), ("trn2", 2), ("trn3", 1), ("trn3", 2)]


def profiled(kernel: Kernel, cores: int, target: str, *arguments: Any) -> Any:
    return nki.profile(kernel if cores == 1 else kernel[cores], target=target)(*arguments)


def shape(text: str) -> Any:
    sizes, dtype, *_ = *text.strip("'").split(":"), "float32"
    return nki.ShapeDtype(tuple(map(int, sizes.split("x"))), dtype)


@pytest.mark.parametrize(("name", "target"), corpus.RUNS, ids=["-".join(run) for run in corpus.RUNS])
def test_kernels_of_the_corpus(name, target):
    case = corpus.CASES[name]
    assert violations(nki.profile(case.kernel, target=target)(*case.arguments())) == []


@pytest.mark.parametrize("name", corpus.CASES)
def test_kernels_of_the_corpus_on_two_cores(name):
    case = corpus.CASES[name]
    profile = profiled(case.kernel, 2, case.targets[-1], *case.arguments())
    assert len(profile.cores) == 2 and violations(profile) == []


@pytest.mark.parametrize(("module", "name"), SINGLE, ids=[name for _, name in SINGLE])
def test_example_of_each_instruction(module, name):
    cores = getattr(module, "CORES", {}).get(name, 1)
    for target in generations(REGISTRY[name]):
        if target.logical_core_max >= cores:
            profile = profiled(getattr(module, name), cores, target.name, *map(shape, module.ARGUMENTS[name]))
            assert violations(profile) == [], target


@pytest.mark.parametrize(("target", "cores"), LAUNCHES)
@pytest.mark.parametrize("kernel", LLAMA, ids=[kernel.func.__name__ for kernel in LLAMA])
def test_kernels_of_a_decoder(kernel, target, cores):
    shapes = [shape(parameter.annotation) for parameter in inspect.signature(kernel.func).parameters.values()]
    assert violations(profiled(kernel, cores, target, *shapes)) == []


@pytest.mark.parametrize(("target", "cores"), LAUNCHES)
def test_a_block_of_an_encoder(target, cores):
    profile = profiled(feed_forward_block, cores, target, *map(shape, FEED_FORWARD))
    assert violations(profile) == [] and profile.flops > cores * 2 * 2 * 256 * 384 * 1536


@nki.jit
def three_queues_of_data(x):
    """Strided and narrow loads, copies in HBM of the kernel's own, and stores that convert."""
    rows, columns = x.shape
    result = nl.ndarray((rows, columns), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    between = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.hbm)
    for row in range(0, rows, 128):
        for column in range(0, columns, 128):
            ends = slice(row, row + 128), slice(column, column + 128)
            tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            even = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
            narrow = nl.ndarray((2, columns), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=narrow, src=x[row : row + 2, :])
            nisa.dma_copy(dst=even, src=x[row : row + 128, column : column + 128 : 2])
            nisa.dma_copy(dst=tile, src=x[ends])
            nisa.tensor_tensor(dst=tile[:, 0:64], data1=tile[:, 0:64], data2=even, op=nl.add)
            nisa.tensor_tensor(dst=tile[0:2, :], data1=tile[0:2, :], data2=narrow[:, 0:128], op=nl.add)
            nisa.dma_copy(dst=between[ends], src=tile)
            nisa.dma_copy(dst=result[ends], src=tile)
    return result


@pytest.mark.parametrize(("target", "queues"), [("trn1", {"gpsimd", ""}), ("trn2", {"sync", "gpsimd", ""})])
def test_queues_of_data_beside_each_other(target, queues):
    profile = profiled(three_queues_of_data, 1, target, shape("256x2048"))
    assert violations(profile) == []
    assert {each.generator for each in profile.timeline.cores[0].estimates if each.transfer} == queues
    assert profile.lower_bound.resource == "dma" and profile.latency < 1.1 * profile.lower_bound.seconds
