"""Instructions on operands in the caller's memory, where copy elimination has given them strides of all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nki import target
from nki.compilation.executable import NATIVE_STAGES
from nki.compilation.pipeline import run_stages
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.program import Program
from nki.ir.sample import Draw
from nki.ir.types import Access, Tensor, row_major
from tests.support import instruction_bench
from tests.support.instruction_bench import contents, window

Array = np.ndarray[Any, Any]
COUNT = max(3, instruction_bench.EXAMPLES // 10)


def spread(tensor: Tensor, draw: Draw) -> Access:
    """A window of ``tensor``'s shape in a larger tensor, its dimensions in any order and with gaps."""
    order = list(range(len(tensor.shape)))
    if draw.flag():
        draw.source.shuffle(order)
    gaps = [draw.choice((0, 0, 0, 1, 3)) for _ in order]
    storage = tuple(tensor.shape[dim] + gap for dim, gap in zip(order, gaps, strict=True))
    steps = dict(zip(order, row_major(storage), strict=True))
    holder = replace(tensor, shape=storage)
    offset = sum(step * draw.integer(0, gap) for step, gap in zip(row_major(storage), gaps, strict=True))
    return Access(holder, offset, tensor.shape, tuple(steps[dim] for dim in range(len(order))), tensor.dtype)


def laid_out(kernel: Program, draw: Draw) -> tuple[Program, dict[Tensor, Access]]:
    """``kernel`` with inputs and outputs that are windows of larger tensors; and the windows."""
    windows = {tensor: spread(tensor, draw) for tensor in (*kernel.inputs, *kernel.outputs)}

    def moved(inst: Inst) -> Inst:
        changes = {n: windows[a.tensor] for n, a in enumerate(inst.accesses()) if a.tensor in windows}
        return inst.with_operands(changes) if changes else inst

    def renamed(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(windows[t].tensor if t in windows else t for t in tensors)

    core = kernel.core
    body = tuple(moved(inst) for inst in core.instructions())
    signature = replace(kernel.signature, inputs=renamed(kernel.inputs), outputs=renamed(kernel.outputs), forms=())
    return replace(
        kernel, signature=signature, cores=(replace(core, body=body, tensors=renamed(core.tensors)),)
    ), windows


def in_windows(kernel: Program, windows: dict[Tensor, Access], arrays: Sequence[Array], rng: Any) -> list[Array]:
    """Inputs of the laid-out kernel that hold ``arrays`` in their windows."""
    holders: list[Array] = []
    for tensor, array in zip(kernel.inputs, arrays, strict=True):
        holder = contents(tensor.dtype, windows[tensor].tensor.shape, rng)
        window(holder, windows[tensor])[...] = array.reshape(tensor.shape).view(f"u{tensor.dtype.itemsize}")
        holders.append(holder)
    return holders


@pytest.mark.parametrize("mnemonic", instruction_bench.WRITING)
def test_results_do_not_depend_on_the_layout(mnemonic: str) -> None:
    generation = target.GEN4
    draw = Draw(instruction_bench.source("forwarded layouts", mnemonic), generation)
    bench = instruction_bench.program(
        [instruction_bench.sample(REGISTRY[mnemonic], draw) for _ in range(COUNT)], generation
    )
    kernel, windows = laid_out(bench.kernel, draw)
    rng = np.random.default_rng(instruction_bench.source("contents", mnemonic).getrandbits(64))
    inputs = bench.fill(rng)
    results = instruction_bench.run_native(kernel, in_windows(bench.kernel, windows, inputs, rng))
    got = [
        window(result, windows[tensor]).copy().view(tensor.dtype.plain)
        for tensor, result in zip(bench.kernel.outputs, results, strict=True)
    ]
    assert not list(bench.differences(got, instruction_bench.run_reference(bench.kernel, inputs)))


def test_most_operands_are_forwarded() -> None:
    """The property test above looks at something: copies do go."""
    generation = target.GEN4
    draw = Draw(instruction_bench.source("forwarded layouts", "count"), generation)
    before = after = 0
    for mnemonic in ("tensor_tensor", "activation", "tensor_reduce", "nc_stream_shuffle", "quantize_mx"):
        trials = [instruction_bench.sample(REGISTRY[mnemonic], draw) for _ in range(5)]
        kernel, _ = laid_out(instruction_bench.program(trials, generation).kernel, draw)
        before += kernel.size
        after += run_stages(kernel, generation, NATIVE_STAGES).size
    assert after < 0.8 * before
