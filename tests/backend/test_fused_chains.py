"""Chains of element-wise instructions, which share one loop: the bits of the simulator, what is fused and stored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import nki
import nki.isa as nisa
import nki.language as nl
from nki.backend.cpu.fusion.group import FusionGroup
from nki.backend.cpu.fusion.legality import MOST_PARTS
from nki.backend.cpu.fusion.parts import lower_group
from nki.backend.cpu.kernel_ir.nodes import Fused
from nki.backend.cpu.runtime import routines, stored_routines
from nki.backend.cpu.runtime.link import listing
from nki.backend.cpu.runtime.routines import routine_key
from nki.backend.numpy import executor
from nki.compilation.executable import Executable, lower
from nki.isa.tables.activations import ACTIVATIONS
from tests.support.both_executors import both, numbers
from tests.support.shared_launches import launched, shared

__all__ = ["shared"]
EXAMPLES = int(os.environ.get("NKI_TEST_EXAMPLES", "50"))
TILES, WIDTH = 4, 40
DTYPES = {"float32": nl.float32, "bfloat16": nl.bfloat16, "float16": nl.float16, "int32": nl.int32}
VIEWS = ("whole", "left", "right", "shifted", "unshifted", "even", "odd", "blocks")
OPERATORS = (nl.add, nl.subtract, nl.multiply, nl.maximum, nl.minimum, nl.greater, nl.logical_xor, nl.divide)
FUNCTIONS = (nl.exp, nl.tanh, nl.gelu, nl.silu, nl.relu, nl.sign, nl.copy, nl.abs)
KINDS = ("both", "number", "two", "column", "repeated", "activation", "three", "copy", "reciprocal", "select", "fill")
KINDS += ("positions", "sum", "sum", "extreme", "extreme")
SPECIAL = np.array([0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 0x000116C2, 0xFFC00000, 0x7FFFFFFF], np.uint32)
"""NaN of several payloads, infinities, -0 and a subnormal number."""


class Step(nl.NKIObject):
    """One instruction of a program: the tiles of its result and of its operands, the part of them, and numbers."""

    kind: str
    to: int
    one: int
    two: int
    view: str
    source_view: str
    number: int


def part(tile, view):
    if view == "left":
        return tile[:, 0 : WIDTH // 2]
    if view == "right":
        return tile[:, WIDTH // 2 :]
    if view == "shifted":
        return tile[:, 4 : 4 + WIDTH // 2]
    if view == "unshifted":
        return tile[:, 3 : 3 + WIDTH // 2]
    if view == "even":
        return tile[:, 0:WIDTH:2]
    if view == "odd":
        return tile[:, 1:WIDTH:2]
    if view == "blocks":
        return tile.ap([[WIDTH, tile.shape[0]], [8, 5], [1, 4]])
    return tile


def columns(view):
    return WIDTH if view == "whole" else WIDTH // 2


def run(tiles, vectors, step):
    source_view = step.source_view if columns(step.source_view) == columns(step.view) else step.view
    dst, a, b = part(tiles[step.to], step.view), part(tiles[step.one], source_view), part(tiles[step.two], step.view)
    operator, column = OPERATORS[step.number % len(OPERATORS)], vectors[step.number % 2]
    if step.kind == "both":
        nisa.tensor_tensor(dst, a, b, operator)
    elif step.kind == "number":
        nisa.tensor_scalar(dst, a, operator, 0.5 + step.number)
    elif step.kind == "two":
        nisa.tensor_scalar(dst, a, nl.multiply, 0.75, op1=operator, operand1=column, reverse1=step.number % 3 == 0)
    elif step.kind == "column":
        nisa.tensor_scalar(dst, a, operator, column)
    elif step.kind == "repeated":
        nisa.tensor_tensor(dst, a, column.ap([[1, dst.shape[0]], [0, columns(step.view)]]), operator)
    elif step.kind == "activation":
        nisa.activation(dst, FUNCTIONS[step.number % len(FUNCTIONS)], a, bias=column, scale=-0.25)
    elif step.kind == "three":
        nisa.scalar_tensor_tensor(dst, a, operator, column, nl.add, b)
    elif step.kind == "reciprocal":
        nisa.reciprocal(dst, a)
    elif step.kind == "select":
        nisa.affine_select(dst, [[-1, columns(step.view)]], step.number - 8, a, -3.5, cmp_op=nl.greater_equal)
    elif step.kind == "fill":
        nisa.memset(dst, step.number)
    elif step.kind == "sum":
        nisa.tensor_tensor(dst, a, b, operator)
        op = nl.multiply if step.number % 5 == 0 else nl.add
        summed = dst if step.number % 7 else a
        axes = tuple(range(1, len(summed.shape)))
        nisa.tensor_reduce(vectors[step.number % 2], op, summed, axis=axes, negate=step.number % 3 == 0)
    elif step.kind == "extreme":
        axes = tuple(range(1, len(a.shape)))
        nisa.tensor_reduce(vectors[step.number % 2], nl.maximum if step.number % 3 else nl.minimum, a, axis=axes)
    elif step.kind == "positions":
        nisa.iota(dst, [[1, columns(step.view)]], offset=step.number, channel_multiplier=3)
    else:
        nisa.tensor_copy(dst, a)


def fits(step, dtypes):
    """True if the instruction takes these dtypes."""
    if step.kind == "select":
        return step.view == step.source_view == "whole" and dtypes[step.to] == "float32" == dtypes[step.one]
    if step.kind == "positions":
        return step.view == "whole" and dtypes[step.to] == "int32"
    return True


def program(x, y, steps, dtypes, stored, rounds):
    """Run ``steps`` on tiles that begin as parts of ``x`` [p, 4 * 40]; those in ``stored`` are the result,
    and both vectors.
    """
    rows = x.shape[0]
    out = nl.ndarray((rows, TILES * WIDTH + 2), dtype=nl.float32, buffer=nl.shared_hbm)
    vectors = [nl.load(y[:, 0:1]), nl.load(y[:, 1:2])]
    tiles = []
    for number in range(TILES):
        loaded = nl.load(x[:, number * WIDTH : (number + 1) * WIDTH])
        if dtypes[number] != "float32":
            tile = nl.ndarray((rows, WIDTH), dtype=DTYPES[dtypes[number]], buffer=nl.sbuf)
            nisa.tensor_copy(tile, loaded)
            loaded = tile
        tiles.append(loaded)

    def body(_):
        for step in steps:
            run(tiles, vectors, step)

    if rounds:
        nl.fori_loop(0, rounds, body)
    else:
        body(0)
    for number in range(TILES):
        target = out[:, number * WIDTH : (number + 1) * WIDTH]
        if number not in stored:
            nl.store(target, nl.zeros((rows, WIDTH), dtype=nl.float32))
        elif dtypes[number] == "float32":
            nl.store(target, tiles[number])
        else:
            tile = nl.ndarray((rows, WIDTH), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(tile, tiles[number])
            nl.store(target, tile)
    for number in range(2):
        at = TILES * WIDTH + number
        nl.store(out[:, at : at + 1], vectors[number])
    return out


steps_of_one = st.builds(
    Step,
    kind=st.sampled_from(KINDS),
    to=st.integers(0, TILES - 1),
    one=st.integers(0, TILES - 1),
    two=st.integers(0, TILES - 1),
    view=st.sampled_from(("whole",) * 6 + VIEWS),
    source_view=st.sampled_from(("whole",) * 6 + VIEWS),
    number=st.integers(0, 20),
)
dtypes_of_tiles = st.one_of(
    st.lists(st.sampled_from(("float32", "float32", *DTYPES)), min_size=TILES, max_size=TILES).map(tuple),
    st.just(("bfloat16",) * TILES),
)


@pytest.mark.filterwarnings("ignore:nl.divide")
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(steps_of_one, min_size=2, max_size=14).map(tuple),
    dtypes=dtypes_of_tiles,
    stored=st.sets(st.integers(0, TILES - 1), min_size=1).map(lambda numbers: tuple(sorted(numbers))),
    rows=st.sampled_from((128, 33, 16, 5)),
    rounds=st.sampled_from((0, 0, 2)),
    seed=st.integers(0, 99),
)
def test_random_programs(
    steps: tuple[Step, ...],
    dtypes: tuple[str, ...],
    stored: tuple[int, ...],
    rows: int,
    rounds: int,
    seed: int,
    shared: pytest.MonkeyPatch,
) -> None:
    steps = tuple(step for step in steps if fits(step, dtypes))
    random = np.random.default_rng(seed)
    x, y = (random.normal(size=(rows, count)).astype(np.float32) for count in (TILES * WIDTH, 2))
    if seed % 3 == 0:
        x.flat[random.integers(0, x.size, 60)] = np.resize(SPECIAL.view(np.float32), 60)
    if seed % 4 == 0:
        y.flat[random.integers(0, y.size, 4)] = random.choice(SPECIAL, 4).view(np.float32)
    kernel = nki.jit(program).compile(x, y, steps, dtypes, stored, rounds).kernel
    with np.errstate(all="ignore"):
        expected = [np.ascontiguousarray(output).tobytes() for output in executor.run(kernel, [x, y])]
    for outputs in launched(kernel, [x, y], shared):
        assert outputs == expected


def like(tile, dtype=nl.float32):
    return nl.ndarray(tile.shape, dtype=dtype, buffer=nl.sbuf)


def chains(kernel: Any, *arguments: Any) -> list[FusionGroup]:
    """The chains in the program of a kernel."""
    fused = lower(nki.jit(kernel).compile(*arguments).kernel)
    return [inst for inst in fused.instructions() if isinstance(inst, FusionGroup)]


def mnemonics(kernel: Any, *arguments: Any) -> list[list[str]]:
    """The parts of each chain."""
    return [[part.mnemonic for part in chain.parts] for chain in chains(kernel, *arguments)]


def in_registers(chain: FusionGroup) -> set[int]:
    """The numbers of the assignments of a chain that nothing stores."""
    (loop,) = lower_group(chain).statements
    assert isinstance(loop, Fused)
    return {number for number in range(len(loop.assigns)) if not loop.is_stored(number)}


def tensors(chain: FusionGroup) -> dict[str, list[str]]:
    """The tensors that a chain writes, changes and reads."""
    roles = {"written": chain.written, "changed": chain.changed, "read": chain.read}
    return {role: [access.name for access in accesses] for role, accesses in roles.items() if accesses}


def affine(x, gain, shift):
    """x * 2 * gain + shift, [p, f] each."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a, b, c = (nl.load(operand) for operand in (x, gain, shift))
    doubled, scaled = like(a), like(a)
    nisa.tensor_scalar(doubled, a, nl.multiply, 2.0)
    nisa.tensor_tensor(scaled, doubled, b, nl.multiply)
    nisa.tensor_tensor(scaled, scaled, c, nl.add)
    nl.store(out, scaled)
    return out


def test_one_routine_in_a_launch_and_no_memory() -> None:
    arguments = [numbers(128, 96) + number for number in range(3)]
    both(affine, *arguments)
    (chain,) = chains(affine, *arguments)
    assert tensors(chain) == {"written": ["out"], "read": ["x", "gain", "shift"]}
    assert in_registers(chain) == {0, 1} and lower_group(chain).scratch_bytes == 0
    (core,) = Executable(nki.jit(affine).compile(*arguments).kernel).linked.cores
    assert core.entries == 1 and core.arena == 0


def test_a_column_that_is_repeated_for_all_elements_is_no_reason_to_stop() -> None:
    def kernel(x, y):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a, column = nl.load(x), nl.load(y)
        difference, result = like(a), like(a)
        nisa.tensor_tensor(difference, a, column.ap([[1, a.shape[0]], [0, a.shape[1]]]), nl.subtract)
        nisa.activation(result, nl.exp, difference)
        nl.store(out, result)
        return out

    x, y = numbers(128, 50), numbers(128, 1)
    both(kernel, x, y)
    (chain,) = chains(kernel, x, y)
    assert [part.mnemonic for part in chain.parts] == ["tensor_tensor", "activation"]
    assert tensors(chain)["written"] == ["out"] and in_registers(chain) == {0}


def test_a_result_that_is_read_later_is_stored_once() -> None:
    def kernel(x):
        out = nl.ndarray((2, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        b = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        c, top = like(a), nl.ndarray((a.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(b, a, nl.multiply, 3.0)
        nisa.activation(c, nl.tanh, b)
        nisa.tensor_tensor(c, c, b, nl.subtract)
        nisa.tensor_reduce(top, nl.maximum, b, axis=1)
        nisa.tensor_scalar(b, b, nl.subtract, top)
        nl.store(out[0], c)
        nl.store(out[1], b)
        return out

    x = numbers(64, 40)
    both(kernel, x)
    (chain,) = chains(kernel, x)
    assert [part.mnemonic for part in chain.parts] == ["tensor_scalar", "activation", "tensor_tensor"]
    assert tensors(chain) == {"written": ["b", "out"], "read": ["x"]}
    assert in_registers(chain) == {1}


@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float16, nl.float8_e4m3, nl.int32, nl.uint8])
def test_results_are_rounded_between_parts(dtype: Any) -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        a = nl.load(x)
        narrow, wide = like(a, dtype), like(a)
        nisa.tensor_scalar(narrow, a, nl.multiply, 100.3)
        nisa.tensor_scalar(wide, narrow, nl.multiply, 0.01)
        nl.store(out, wide)
        return out

    x = numbers(128, 50)
    x[0, :4] = np.nan, np.inf, -np.inf, -0.0
    assert mnemonics(kernel, x) == [["tensor_scalar", "tensor_scalar"]]
    result = both(kernel, x)
    assert np.abs(result[1:] - x[1:]).max() > 1e-4 or dtype == nl.float16


def test_parts_that_read_neighbours_are_not_fused() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        b = like(a)
        nisa.tensor_scalar(b, a, nl.multiply, 2.0)
        nisa.tensor_tensor(b[:, 1:], b[:, :-1], b[:, 1:], nl.add)
        nisa.tensor_tensor(b[:, :-1], b[:, :-1], b[:, 1:], nl.add)
        nl.store(out, b)
        return out

    x = numbers(128, 33)
    assert not chains(kernel, x)
    both(kernel, x)


def test_parts_of_other_columns_of_one_tile_are_fused() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        half = a.shape[1] // 2
        b = like(a)
        nisa.tensor_scalar(b[:, :half], a[:, half:], nl.multiply, 2.0)
        nisa.tensor_tensor(b[:, half:], b[:, :half], a[:, half:], nl.add)
        nl.store(out, b)
        return out

    x = numbers(128, 64)
    assert mnemonics(kernel, x) == [["tensor_scalar", "tensor_tensor"]]
    both(kernel, x)


def test_a_tile_that_the_next_round_reads_is_stored() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        b = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        c = like(a)
        nisa.memset(b, 1.0)

        def body(_):
            nisa.tensor_tensor(c, a, b, nl.add)
            nisa.activation(b, nl.tanh, c)

        nl.fori_loop(0, 3, body)
        nl.store(out, b)
        return out

    x = numbers(128, 33)
    (chain,) = chains(kernel, x)
    assert tensors(chain) == {"changed": ["b"], "read": ["a"]}
    both(kernel, x)


def test_a_tile_that_is_read_after_the_loop_is_stored() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        b = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
        total = like(a)
        nisa.memset(total, 0.0)

        def body(_):
            nisa.activation(b, nl.tanh, a)
            nisa.tensor_tensor(total, total, b, nl.add)

        nl.fori_loop(0, 2, body)
        nisa.activation(total, nl.exp, total)
        nisa.tensor_tensor(total, total, b, nl.add)
        nl.store(out, total)
        return out

    x = numbers(128, 33)
    assert tensors(chains(kernel, x)[0])["written"] == ["b"]
    both(kernel, x)


def test_a_tile_that_is_reused_needs_no_memory() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        work = nl.ndarray((32, x.shape[1]), dtype=nl.float32, buffer=nl.sbuf)
        for first in range(0, x.shape[0], 32):
            tile = nl.load(x[first : first + 32])
            nisa.activation(work, nl.exp, tile)
            nisa.tensor_scalar(work, work, nl.add, 1.0)
            result = like(tile)
            nisa.reciprocal(result, work)
            nl.store(out[first : first + 32], result)
        return out

    x = numbers(128, 33)
    found = chains(kernel, x)
    assert [tensors(chain) for chain in found] == [{"written": ["out"], "read": ["x"]}] * 4
    both(kernel, x)


def test_a_long_chain_is_cut() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for number in range(2 * MOST_PARTS + 3):
            result = like(tile)
            nisa.tensor_scalar(result, tile, nl.multiply, 1.0 + number)
            tile = result
        nl.store(out, tile)
        return out

    x = numbers(128, 33) * 1e-9
    assert [len(parts) for parts in mnemonics(kernel, x)] == [MOST_PARTS, MOST_PARTS, 3]
    both(kernel, x)


def test_numbers_that_each_launch_passes() -> None:
    @nki.jit
    def kernel(x, factor, offset):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        a = nl.load(x)
        b, c = like(a), like(a)
        nisa.tensor_scalar(b, a, nl.multiply, 3.0, op1=nl.add, operand1=offset)
        nisa.tensor_scalar(c, b, nl.multiply, factor)
        nl.store(out, c)
        return out

    x = numbers(128, 40)
    for factor, offset in ((0.5, 1.0), (-2.0, 0.25)):
        np.testing.assert_array_equal(kernel(x, factor, offset), (x * np.float32(3) + np.float32(offset)) * factor)
    fused = lower(kernel.compile(x, 0.5, 1.0).kernel)
    assert [inst.mnemonic for inst in fused.core.body] == ["fused"]


def test_routines_of_chains_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [numbers(128, 72) + number for number in range(3)]
    (chain,) = chains(affine, *arguments)
    key = routine_key(chain)
    monkeypatch.setenv("OPEN_NKI_CACHE", str(tmp_path))
    monkeypatch.delenv("OPEN_NKI_CACHE_DISABLE")
    monkeypatch.setattr(routines, "_routines", {})
    (made,) = routines.compile_routines({key: chain}, None)
    found = stored_routines.find([key])
    assert [facts.uses for _, facts, _ in found.values()] == [made.uses]


def test_loops_ask_ahead_for_what_is_in_no_tile() -> None:
    def prefetches(kernel: Any, *arguments: Any) -> int:
        text = listing(lower(nki.jit(kernel).compile(*arguments).kernel), assembly=False)
        return sum("call void @llvm.prefetch" in line for line in text.splitlines())

    def parts_of_rows(x):
        out = nl.ndarray((128, 96), dtype=x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x[:, 0:96])
        result = like(tile)
        nisa.activation(result, nl.exp, tile)
        nl.store(out, result)
        return out

    assert prefetches(affine, *[numbers(128, 96)] * 3) >= 3
    assert prefetches(parts_of_rows, numbers(128, 97)) == 0


FUNCTIONS_OF_ONE = tuple(
    getattr(nl, row.name) for row in ACTIVATIONS.values() if hasattr(nl, row.name) and not row.parameter
)


@pytest.mark.filterwarnings("ignore::nki.base.warning.NkiPortabilityWarning")  # operators that NKI does not run
@pytest.mark.parametrize("function", FUNCTIONS_OF_ONE, ids=lambda function: function.name)
def test_nan_between_parts(function: Any) -> None:
    """What is computed may be any NaN while it stays in registers, and is the canonical one wherever it is seen."""

    def kernel(x, y):
        out = nl.ndarray((6, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)
        a, b = nl.load(x), nl.load(y)
        total, result, narrow = like(a), [like(a) for _ in range(6)], [like(a, nl.bfloat16), like(a, nl.float16)]
        nisa.tensor_tensor(total, a, b, nl.subtract)
        nisa.activation(result[0], function, total)
        nisa.tensor_copy(result[1], total)
        nisa.tensor_scalar(result[2], total, nl.abs, None, op1=nl.maximum, operand1=0.5)
        nisa.tensor_tensor(result[3], b, total, nl.power)
        for number in range(2):
            nisa.tensor_copy(narrow[number], total)
            nisa.tensor_copy(result[number + 4], narrow[number])
        for number in range(6):
            nl.store(out[number], result[number])
        return out

    random = np.random.default_rng(3)
    words = random.integers(0, 1 << 32, (2, 32, 48), np.uint32)
    words[:, :, ::3] |= 0x7F800000  # NaN of any sign and payload, quiet and signalling
    x, y = words.view(np.float32)
    x[:, 1::6] = y[:, 1::6] = np.inf
    (parts,) = mnemonics(kernel, x, y)
    assert len(parts) == 9
    with np.errstate(all="ignore"):
        both(kernel, x, y)
