"""What follows from an instruction's declaration: samples are legal, executors agree, text and artifacts keep them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nki.isa  # noqa: F401  # declares the instructions
from nki import target
from nki.ir import artifact
from nki.ir.inst import REGISTRY, Inst, verify
from nki.ir.sample import Draw
from nki.ir.text import parse, show
from nki.target import Target

from . import harness

GENERATIONS = pytest.mark.parametrize("generation", target.GENERATIONS, ids=lambda t: t.name)
INSTRUCTIONS = pytest.mark.parametrize("mnemonic", REGISTRY)
COUNT = max(1, harness.EXAMPLES // 5)
"""Samples per instruction, generation and test. Compiling one takes some 50 ms."""


def draws(generation: Target, *what: str) -> Draw:
    return Draw(harness.source(generation.name, *what), generation)


@GENERATIONS
@INSTRUCTIONS
def test_samples_are_legal(mnemonic: str, generation: Target) -> None:
    draw = draws(generation, mnemonic, "legal")
    for _ in range(10 * COUNT):
        verify(harness.sample(REGISTRY[mnemonic], draw), generation, {})


def agree(trials: list[Inst], generation: Target, what: str) -> None:
    """Native code and NumPy give the same bits for the same random contents, in two rounds."""
    made = harness.program(trials, generation)
    rng = np.random.default_rng(harness.source(what).getrandbits(64))
    for _ in range(2):
        inputs = made.fill(rng)
        got, want = harness.run_native(made.kernel, inputs), harness.run_reference(made.kernel, inputs)
        assert not list(made.differences(got, want))


@GENERATIONS
@INSTRUCTIONS
def test_native_code_is_the_reference(mnemonic: str, generation: Target) -> None:
    draw = draws(generation, mnemonic, "native")
    agree([harness.sample(REGISTRY[mnemonic], draw) for _ in range(COUNT)], generation, mnemonic)


@pytest.mark.parametrize("arrange", [harness.in_place, harness.crowded], ids=lambda f: f.__name__)
@INSTRUCTIONS
def test_reads_come_before_writes(mnemonic: str, arrange: Callable[[Inst, Draw], Inst | None]) -> None:
    generation = target.GEN4
    draw = draws(generation, mnemonic, arrange.__name__)
    # Most samples have dtypes or memories that cannot share a place.
    found = [made for _ in range(200) if (made := arrange(harness.sample(REGISTRY[mnemonic], draw), draw))]
    if (mnemonic, arrange.__name__) in CANNOT_OVERLAP:
        assert not found
        return
    assert found
    agree(found[:COUNT], generation, mnemonic)


CANNOT_OVERLAP = {
    ("iota", "in_place"),  # no input
    ("iota", "crowded"),
    ("memset", "in_place"),
    ("memset", "crowded"),
    ("nc_matmul", "in_place"),  # from SBUF into PSUM
    ("nc_matmul", "crowded"),
    ("bn_stats", "in_place"),  # samples have no 6 elements, or not 2
    ("bn_aggr", "in_place"),
}


@GENERATIONS
@INSTRUCTIONS
def test_text_and_artifact_keep_the_kernel(mnemonic: str, generation: Target) -> None:
    draw = draws(generation, mnemonic, "text")
    kernel = harness.program([harness.sample(REGISTRY[mnemonic], draw) for _ in range(COUNT)], generation).kernel
    text = show(kernel)
    again = parse(text)
    assert again == kernel
    assert show(again) == text
    assert artifact.loads(artifact.dumps(kernel)) == kernel
