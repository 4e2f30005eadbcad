"""Every instruction against its independent second formula in ``oracle/``: random samples and published vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import pytest

import nki.isa  # noqa: F401  # declares the instructions
from nki import target
from nki.base import element_types as dt
from nki.base.errors import NkiError
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.types import Access, Buffer, Dynamic, IndexKind, Tensor
from nki.isa.api import freeze
from nki.isa.tables.operators import named
from nki.target import Target
from tests.support import instruction_bench
from tests.support.instruction_bench import Array

from .oracle_bench import ORACLES, disagreement, outputs, tame

Runner = Callable[..., list[Array]]
COUNT = max(1, instruction_bench.EXAMPLES // 10)
"""Samples per instruction and generation."""


# Random samples


@pytest.mark.parametrize(
    ("mnemonic", "generation"), [p for p in instruction_bench.ON_GENERATIONS if p.values[0] in ORACLES]
)
def test_random_samples(mnemonic: str, generation: Target) -> None:
    choices = instruction_bench.source("oracle", mnemonic, generation.name)
    draw = Draw(choices, generation)
    rng = np.random.default_rng(choices.getrandbits(64))
    made = instruction_bench.program(
        [instruction_bench.sample(REGISTRY[mnemonic], draw) for _ in range(COUNT)], generation
    )
    before = made.fill(rng)
    for inst in made.trials:
        tame(inst, made, before, rng)
    after = instruction_bench.run_reference(made.kernel, before)
    reports = [disagreement(inst, made, before, after, generation) for inst in made.trials]
    assert not [r for r in reports if r]


# Published and hand-calculated vectors

REFUSED = {
    "memset-3": "MS01",  # 2.5 and -1 cannot be stored in integers of that kind: an error instead of another number
    "memset-4": "MS01",
    "tensor_copy-2": "TC01",  # the oracle says so itself: gen2 does not offer it on the Scalar engine
}
DEPARTURES = {
    # On gen2 these spread NaN and infinity over the tile: bits are moved instead, as on later generations.
    "nc_matmul-7",
    "nc_transpose-1",
}
VECTORS = [
    pytest.param(name, asked, id=f"{name}-{i}")
    for name, oracle in ORACLES.items()
    for i, (asked, _) in enumerate(oracle.VECTORS)
]
"""Both executors run them. That the oracles agree with their own vectors is tested beside them."""


def instruction(name: str, asked: Mapping[str, Any]) -> tuple[Inst, Target, dict[Tensor, Array]]:
    """The instruction that a vector is about, its target, and what is in its tensors before."""
    cls = REGISTRY[name]
    generation = target.find(asked.get("target", "gen4"))
    on_tensor = name.startswith(("nc_matmul", "psum")) or asked.get("engine") == "tensor"
    before: dict[Tensor, Array] = {}
    values: dict[str, Any] = {}
    for f in cls.fields:
        if f.name not in asked:
            continue
        if f.name == "states":
            values[f.name] = _generators(before, asked[f.name])
        elif isinstance(value := asked[f.name], np.ndarray):
            psum = (f.name == "dst" and on_tensor) or (f.name == "data1" and asked.get("in_psum"))
            register = f.name in cls.effects.scalar_registers
            buffer = Buffer.psum if psum else Buffer.register if register else _memory(asked)
            kind = asked.get(f"{f.name}_dtype", value.dtype)
            values[f.name] = _tile(before, f.name, value, buffer, kind)
            if f"{f.name}_rows" in asked:
                values[f.name] = _by_rows(before, f.name, value, asked)
        elif f.several:
            values[f.name] = tuple(_source(before, f.name, number, asked, values) for number in range(len(value)))
        elif f.symbol is not None and isinstance(value, str):
            values[f.name] = getattr(f.symbol, value) if issubclass(f.symbol, Enum) else named(value)
        else:
            values[f.name] = freeze(value)
    made = cls(**values)
    if getattr(made, "uses_registers", False):
        held = asked.get("reduce_regs", np.zeros(asked["dst"].shape[0], np.float32))
        made.registers = _tile(before, "registers", held.reshape(-1, 1), Buffer.register)  # type: ignore[attr-defined]
    return made, generation, before


def _source(before: dict[Tensor, Array], name: str, number: int, asked: Mapping[str, Any], made: Any) -> Access:
    """One of several operands. Where it is the array of the destination, it is the destination itself."""
    array = asked[name][number]
    if array is asked["dst"]:
        return made["dst"]
    tile = _tile(before, f"{name}{number}", array, _memory(asked))
    if f"{name}_rows" not in asked or array.shape == made["dst"].shape:
        return tile
    return _by_rows(before, tile.name, array, {f"{tile.name}_rows": asked[f"{name}_rows"]})


def _memory(asked: Mapping[str, Any]) -> Buffer:
    return Buffer.hbm if asked.get("in_hbm") else Buffer.sbuf


def _generators(before: dict[Tensor, Array], words: Array) -> Access:
    """The first lanes of an engine's generators."""
    everything = np.zeros((128, words.shape[1]), np.uint32)
    everything[: len(words)] = words
    whole = _tile(before, "states", everything, Buffer.register)
    return Access(whole.tensor, 0, words.shape, whole.strides, whole.dtype)


def _by_rows(before: dict[Tensor, Array], name: str, array: Array, asked: Mapping[str, Any]) -> Access:
    """A tensor in HBM: it shows one row for each index."""
    before.pop(next(t for t in before if t.name == name))
    whole = _tile(before, name, array, Buffer.hbm)
    index = _tile(before, f"{name}_rows", asked[f"{name}_rows"], Buffer.sbuf)
    shape, steps = (index.size, *whole.shape[1:]), whole.strides
    return Access(whole.tensor, 0, shape, steps, whole.dtype, Dynamic(index, steps[0], IndexKind.rows))


def _tile(before: dict[Tensor, Array], name: str, array: Array, buffer: Buffer, kind: Any = None) -> Access:
    tensor = Tensor(name, array.shape, dt.of(kind or array.dtype), buffer)
    before[tensor] = array
    return Access.whole(tensor)


@pytest.mark.parametrize(
    "run", [instruction_bench.run_reference, instruction_bench.run_native], ids=["reference", "native"]
)
@pytest.mark.parametrize(("name", "asked"), VECTORS)
def test_vectors(name: str, asked: dict[str, Any], run: Runner, request: pytest.FixtureRequest) -> None:
    case = request.node.callspec.id.rpartition("-")[0]
    inst, generation, contents = instruction(name, asked)
    if case in REFUSED:
        with pytest.raises(NkiError) as caught:
            instruction_bench.program([inst], generation)
        assert caught.value.rule == REFUSED[case]
        return
    fresh = outputs(inst)[0].tensor if name.startswith("nc_matmul") and not asked.get("written", True) else None
    made = instruction_bench.program([inst], generation, {fresh})
    before = [contents[t] for t in made.tensors]
    why = disagreement(inst, made, before, run(made.kernel, before), generation, written=fresh is None)
    assert (why is not None) == (case in DEPARTURES), why


def test_the_exceptions_exist() -> None:
    assert set(REFUSED) | DEPARTURES <= {str(v.id) for v in VECTORS}
