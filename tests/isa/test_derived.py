"""What follows from an instruction's declaration: samples are legal, executors agree, text and artifacts keep them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nki
import nki.isa as nisa
import nki.language as nl
from nki import target
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.text import artifact
from nki.ir.text.parser import parse
from nki.ir.text.printer import show
from nki.ir.verifier import verify
from nki.target import Target
from tests.support import instruction_bench

ON_GENERATIONS = pytest.mark.parametrize(("mnemonic", "generation"), instruction_bench.ON_GENERATIONS)
COUNT = max(1, instruction_bench.EXAMPLES // 5)
"""Samples per instruction, generation and test. Compiling one takes some 50 ms."""


def draws(generation: Target, *what: str) -> Draw:
    return Draw(instruction_bench.source(generation.name, *what), generation)


@ON_GENERATIONS
def test_samples_are_legal(mnemonic: str, generation: Target) -> None:
    draw = draws(generation, mnemonic, "legal")
    for _ in range(10 * COUNT):
        verify(instruction_bench.sample(REGISTRY[mnemonic], draw), generation, {})


def agree(trials: list[Inst], generation: Target, what: str) -> None:
    """Native code and NumPy give the same bits for the same random contents, in two rounds."""
    made = instruction_bench.program(trials, generation)
    rng = np.random.default_rng(instruction_bench.source(what).getrandbits(64))
    for _ in range(2):
        inputs = made.fill(rng)
        got, want = (
            instruction_bench.run_native(made.kernel, inputs),
            instruction_bench.run_reference(made.kernel, inputs),
        )
        assert not list(made.differences(got, want))


@ON_GENERATIONS
def test_native_code_is_the_reference(mnemonic: str, generation: Target) -> None:
    draw = draws(generation, mnemonic, "native")
    agree([instruction_bench.sample(REGISTRY[mnemonic], draw) for _ in range(COUNT)], generation, mnemonic)


@pytest.mark.parametrize("arrange", [instruction_bench.in_place, instruction_bench.crowded], ids=lambda f: f.__name__)
@pytest.mark.parametrize("mnemonic", instruction_bench.WRITING)
def test_reads_come_before_writes(mnemonic: str, arrange: Callable[[Inst, Draw], Inst | None]) -> None:
    generation = target.GEN4
    draw = draws(generation, mnemonic, arrange.__name__)
    # Most samples have dtypes or memories that cannot share a place.
    found = [made for _ in range(200) if (made := arrange(instruction_bench.sample(REGISTRY[mnemonic], draw), draw))]
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
    ("nc_matmul_mx", "in_place"),
    ("nc_matmul_mx", "crowded"),
    ("psum_zero", "in_place"),  # no input
    ("psum_zero", "crowded"),
    ("quantize_mx", "in_place"),  # results have a quarter of the elements
    ("register_move", "crowded"),  # a register is a place of its own
    ("register_load", "in_place"),
    ("register_load", "crowded"),
    ("register_store", "in_place"),
    ("register_store", "crowded"),
    ("scalar_arithmetic", "crowded"),
    *((name, where) for name in ("scalar_load", "scalar_store") for where in ("in_place", "crowded")),
    ("nonzero_with_count", "in_place"),  # outputs of other sizes than inputs
    ("sequence_bounds", "in_place"),
    ("rand_set_state", "in_place"),  # registers, or no input
    ("rand_set_state", "crowded"),
    ("rand_get_state", "in_place"),
    ("rand_get_state", "crowded"),
    ("rng", "in_place"),
    ("rng", "crowded"),
    ("set_rng_seed", "in_place"),
    ("set_rng_seed", "crowded"),
    ("rank_id", "in_place"),  # no input
    ("rank_id", "crowded"),
    ("processing_rank_id", "crowded"),  # a register is a place of its own
    ("prepare_exchange", "in_place"),  # from HBM into a slot of more rows
    ("prepare_exchange", "crowded"),
    ("bn_stats", "in_place"),  # samples have no 6 elements, or not 2
    ("bn_aggr", "in_place"),
}


@ON_GENERATIONS
def test_text_and_artifact_keep_the_kernel(mnemonic: str, generation: Target) -> None:
    draw = draws(generation, mnemonic, "text")
    kernel = instruction_bench.program(
        [instruction_bench.sample(REGISTRY[mnemonic], draw) for _ in range(COUNT)], generation
    ).kernel
    text = show(kernel)
    again = parse(text)
    assert again == kernel
    assert show(again) == text
    assert artifact.loads(artifact.dumps(kernel)) == kernel


@nki.jit
def chain(data, commands, op):
    """Activations one after the other, each reading out the engine's registers; the contents after each command."""
    partitions, width = data.shape
    results = nl.ndarray((len(commands), partitions, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray((partitions, width), dtype=data.dtype)
    nisa.dma_copy(dst=tile, src=data)
    for i, command in enumerate(commands):
        held = nl.ndarray((partitions, 1), dtype=nl.float32)
        out = nl.ndarray((partitions, width), dtype=nl.bfloat16, buffer=nl.psum)
        if command is None:  # reduces like activation with reset_reduce, into the same registers
            nisa.activation_reduce(out, op, tile, reduce_op=nl.add, reduce_res=held, scale=i + 1.0)
        else:
            nisa.activation(out, op, tile, scale=i + 1.0, reduce_op=nl.add, reduce_res=held, reduce_cmd=command)
        nisa.dma_copy(dst=results[i], src=held)
    return results


COMMANDS = (nisa.reduce_cmd.idle, nisa.reduce_cmd.reset, nisa.reduce_cmd.reduce, nisa.reduce_cmd.reset_reduce, None)


def registers(data: np.ndarray, commands: tuple[nisa.reduce_cmd | None, ...]) -> np.ndarray:
    """The contents of the registers after each command, for op=nl.copy and numbers with exact sums."""
    held = np.full((data.shape[0], 1), np.nan, np.float32)  # nothing has written them yet
    after = []
    for i, command in enumerate(commands):
        name = "reset_reduce" if command is None else command.name
        held = np.zeros_like(held) if name.startswith("reset") else held
        held = held + (i + 1) * data.sum(axis=1, keepdims=True) if name.endswith("reduce") else held
        after.append(held)
    return np.stack(after)


@pytest.mark.parametrize("number", range(6))
def test_registers_last_from_one_activation_to_the_next(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPEN_NKI_HAZARDS", "0")  # the first of them may find registers that nothing has set
    source = instruction_bench.source("registers", number)
    commands = tuple(source.choice(COMMANDS) for _ in range(8))
    rng = np.random.default_rng(source.getrandbits(64))
    data = rng.integers(-9, 10, (source.choice((1, 33, 128)), 7)).astype(np.float32)
    got = chain(data, commands, nl.copy)
    np.testing.assert_array_equal(got, registers(data, commands))
    np.testing.assert_array_equal(nki.simulate(chain)(data, commands, nl.copy), got)
    noisy = rng.standard_normal((128, 40)).astype(np.float32)
    got, want = chain(noisy, commands, nl.gelu), nki.simulate(chain)(noisy, commands, nl.gelu)
    np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))


@nki.jit
def extremes(whole, real):
    """The larger and the smaller of an integer and a float, and the larger of the float and 0."""
    results = nl.ndarray((3, *real.shape), dtype=nl.float32, buffer=nl.shared_hbm)
    left, right = nl.load(whole), nl.load(real)
    for i, op in enumerate((nl.maximum, nl.minimum)):
        out = nl.ndarray(real.shape, dtype=nl.float32)
        nisa.tensor_tensor(out, left, right, op)
        nisa.dma_copy(results[i], out)
    nisa.tensor_scalar(out, right, nl.relu, None)
    nisa.dma_copy(results[2], out)
    return results


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16, 31])
@pytest.mark.parametrize("pattern", [0x7FC00000, 0x7F800001, 0xFFB5A000, 0xFFFFFFFF])
def test_quiet_and_signalling_nans_are_extremes_of_anything(width: int, pattern: int) -> None:
    """Code for single numbers, which are what a row has behind its last vector, is not the code for vectors."""
    real = np.full((1, width), pattern, np.uint32).view(np.float32)
    assert np.isnan(extremes(np.full((1, width), 182, np.int32), real)).all()
