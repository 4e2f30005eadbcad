"""Properties of every profile, over kernels of this repository, targets that have what they need, and two cores."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import nki
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
"""Kernels whose parameters say their shapes."""
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
