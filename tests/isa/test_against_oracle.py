"""Every instruction against its independent second formula in ``oracle/``: random samples and published vectors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import nki.isa  # noqa: F401  # declares the instructions
from nki import target
from nki.base import dtype as dt
from nki.base.dtype import DType
from nki.base.errors import NkiError
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.ir.text.printer import show_inst
from nki.ir.types import Access, Buffer, Dynamic, IndexKind, Role, Tensor
from nki.isa.api import freeze
from nki.isa.tables.operators import Op, named
from nki.target import Target
from tests.support import instruction_bench
from tests.support.instruction_bench import Array, Bench

from .oracle import numerics, verdict

ORACLES = {name: importlib.import_module(f"{__package__}.oracle.{name}") for name in instruction_bench.WRITING}
Runner = Callable[..., list[Array]]
COUNT = max(1, instruction_bench.EXAMPLES // 10)
"""Samples per instruction and generation."""


# From an instruction to what its oracle is asked


def outputs(inst: Inst) -> list[Access]:
    found = [a for f, a in inst.operands() if f.role is not Role.IN and f.name != "registers"]
    return [a if a.dynamic is None else Access.whole(a.tensor) for a in found]


def arguments(inst: Inst, made: Bench, inputs: list[Array], generation: Target) -> dict[str, Any]:
    """The oracle's arguments: tiles as arrays with the contents before, everything named by its name."""
    asked: dict[str, Any] = {"target": f"gen{generation.generation}"}
    for f in inst.fields:
        value = getattr(inst, f.name)
        if f.name == "registers":
            asked["reduce_regs"] = None if value is None else made.at(inputs, value)
        elif isinstance(value, Access) and value.dynamic is not None:
            asked[f.name] = made.at(inputs, Access.whole(value.tensor))
            asked[f"{f.name}_rows"] = made.at(inputs, value.dynamic.source)
        elif f.several:
            asked[f.name] = [made.at(inputs, a if a.dynamic is None else Access.whole(a.tensor)) for a in value]
            indices = [made.at(inputs, a.dynamic.source) for a in value if a.dynamic is not None]
            asked.update({f"{f.name}_rows": index for index in indices})
        elif isinstance(value, Access):
            asked[f.name] = made.at(inputs, value)
            if value.dtype.is_packed:
                asked[f"{f.name}_dtype"] = value.dtype.name
        else:
            asked[f.name] = value.name if isinstance(value, Op | Enum) else value
    asked.setdefault("dst", made.at(inputs, outputs(inst)[0]))
    asked["in_psum"] = any(a.buffer is Buffer.psum for _, a in inst.operands())
    return asked


def judge(name: str, outs: list[Access]) -> Any:
    """The oracle, whose float32 results become tfloat32 where that is what the instruction writes."""
    oracle: ModuleType = ORACLES[name]
    kinds = [a.dtype for a in outs]
    if dt.tfloat32 not in kinds:
        return oracle

    def rounded(results: Any) -> Any:
        if not isinstance(results, tuple):
            return _round(results, kinds[0])
        return tuple(_round(r, kind) for r, kind in zip(results, kinds, strict=True))

    return SimpleNamespace(
        TOLERANCE=oracle.TOLERANCE,
        oracle=lambda dst, **more: rounded(oracle.oracle(dst, **more)),
        bounds=lambda dst, **more: rounded(oracle.bounds(dst, **more)),
    )


def _round(result: Any, kind: DType) -> Any:
    if kind is not dt.tfloat32 or result is None:
        return result
    if isinstance(result, verdict.Bounds):
        low, high = (numerics.exact(numerics.write(end, "tfloat32")) for end in (result.low, result.high))
        return verdict.Bounds(low, high, result.free)
    return numerics.write(numerics.exact(result), "tfloat32")


def disagreement(
    inst: Inst, made: Bench, before: list[Array], after: list[Array], generation: Target, written: bool = True
) -> str | None:
    """What the oracle says against a run; ``written``: the output had been written before."""
    outs = outputs(inst)
    got = tuple(made.at(after, a) for a in outs)
    asked = arguments(inst, made, before, generation)
    why = verdict.disagreement(judge(inst.mnemonic, outs), got if len(got) > 1 else got[0], written=written, **asked)
    return None if why is None else f"seed {instruction_bench.SEED}: {why}: {show_inst(inst)}"


# Random samples


def tame(inst: Inst, made: Bench, inputs: list[Array], rng: np.random.Generator) -> None:
    """Give statistics the inputs that their oracles are written for (finite numbers, counts that can be counts), and
    scales of an everyday size.
    """
    for f, scale in inst.operands():
        if inst.mnemonic == "nc_matmul_mx" and f.name.endswith("_scale"):
            codes = inputs[made.tensors.index(scale.tensor)].view(np.uint8)
            codes[...] = rng.integers(110, 140, codes.shape)
    if inst.mnemonic not in ("bn_stats", "bn_aggr"):
        return
    index = made.tensors.index(inst.data.tensor)  # type: ignore[attr-defined]
    tensor = made.tensors[index]
    values = rng.standard_normal(tensor.shape) * rng.choice((0.01, 1.0, 100.0)) + rng.choice((0.0, 5.0))
    inputs[index] = values.astype(np.float32).astype(tensor.dtype.plain)
    if inst.mnemonic == "bn_aggr":
        data = inst.data  # type: ignore[attr-defined]
        triples = np.empty((data.partitions, data.free_elements // 3, 3), np.float32)
        triples[..., 0] = rng.integers(0, 257, triples.shape[:2])
        triples[..., 1] = rng.standard_normal(triples.shape[:2])
        triples[..., 2] = triples[..., 0] * rng.random(triples.shape[:2])
        triples[..., 1:][triples[..., 0] == 0] = 0
        instruction_bench.window(inputs[index], data)[...] = triples.reshape(data.shape).view(np.uint32)


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
            buffer = Buffer.psum if psum else Buffer.register if register else Buffer.sbuf
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
    tile = _tile(before, f"{name}{number}", array, Buffer.sbuf)
    if array.shape == made["dst"].shape or f"{name}_rows" not in asked:
        return tile
    return _by_rows(before, tile.name, array, {f"{tile.name}_rows": asked[f"{name}_rows"]})


def _generators(before: dict[Tensor, Array], words: Array) -> Access:
    """The first lanes of an engine's generators."""
    everything = np.zeros((128, words.shape[1]), np.uint32)
    everything[: len(words)] = words
    whole = _tile(before, "states", everything, Buffer.register)
    return Access(whole.tensor, 0, words.shape, whole.strides, whole.dtype)


def _by_rows(before: dict[Tensor, Array], name: str, array: Array, asked: Mapping[str, Any]) -> Access:
    """A tensor in HBM, as many of whose rows as there are indices are seen."""
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
