"""Instructions of a bench against their oracles: what an oracle is asked, and what it says about a run."""

from __future__ import annotations

import importlib
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from nki.base import element_types as dt
from nki.base.element_types import DType
from nki.ir.instruction import Inst
from nki.ir.text.printer import show_inst
from nki.ir.types import Access, Buffer, Role
from nki.isa.tables.operators import Op
from nki.target import Target
from tests.support import instruction_bench
from tests.support.instruction_bench import Array, Bench

from .oracle import numerics, verdict

ORACLES = {name: importlib.import_module(f"{__package__}.oracle.{name}") for name in instruction_bench.WRITING}


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


def judge(inst: Inst, outs: list[Access]) -> Any:
    """The oracle; its float32 results become tfloat32 where the instruction writes tfloat32."""
    oracle: ModuleType = ORACLES[inst.mnemonic]
    kinds = [a.dtype for a in outs]
    if dt.tfloat32 not in kinds:
        return oracle
    copies_bits = getattr(oracle, "copies_bits", None)
    if copies_bits is None or any(a.dtype.is_float and a.dtype is not dt.tfloat32 for a in inst.reads()):
        copies_bits = _never

    def rounded(results: Any, copied: bool) -> Any:
        if not isinstance(results, tuple):
            return _round(results, kinds[0], copied)
        return tuple(_round(r, kind, copied) for r, kind in zip(results, kinds, strict=True))

    return SimpleNamespace(
        copies_bits=copies_bits,
        oracle=lambda dst, **more: rounded(oracle.oracle(dst, **more), copies_bits(dst, **more)),
        bounds=lambda dst, **more: rounded(verdict.bounds_of(oracle, dst, **more), False),
    )


def _never(_dst: Array, **_: Any) -> bool:
    return False


def _round(result: Any, kind: DType, copied: bool) -> Any:
    """``result`` as elements of ``kind``; those that are tfloat32 already keep their bits if they are ``copied``."""
    if kind is not dt.tfloat32 or result is None:
        return result
    if isinstance(result, verdict.Bounds):
        low, high = (numerics.exact(numerics.write(end, "tfloat32")) for end in (result.low, result.high))
        return verdict.Bounds(low, high, result.free)
    written = numerics.write(numerics.exact(result), "tfloat32")
    return np.where(numerics.bits(result) & 0x1FFF == 0, result, written) if copied else written


def disagreement(
    inst: Inst, made: Bench, before: list[Array], after: list[Array], generation: Target, written: bool = True
) -> str | None:
    """What the oracle says against a run; ``written``: the output had been written before."""
    outs = outputs(inst)
    got = tuple(made.at(after, a) for a in outs)
    asked = arguments(inst, made, before, generation)
    why = verdict.disagreement(judge(inst, outs), got if len(got) > 1 else got[0], written=written, **asked)
    return None if why is None else f"seed {instruction_bench.SEED}: {why}: {show_inst(inst)}"


def tame(inst: Inst, made: Bench, inputs: list[Array], rng: np.random.Generator) -> None:
    """Give statistics the inputs that their oracles are written for (finite numbers, counts that can be counts),
    scales of an everyday size, and tables of pieces that lie in their tensors.
    """
    if inst.mnemonic == "exchange_by_count":
        size = inst.src.size  # type: ignore[attr-defined]  # the one of the destination, too
        count = rng.integers(0, size + 1)
        for f, row in inst.operands():
            if f.name in ("send_counts", "send_displs", "recv_displs"):
                number = count if f.name == "send_counts" else rng.integers(0, size + 1 - count)
                instruction_bench.window(inputs[made.tensors.index(row.tensor)], row)[...] = number
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
