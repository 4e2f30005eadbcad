"""Effects of declarations, and the rule that the rest of the compiler asks for nothing else of an instruction."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import nki.isa
from nki.cost.collectives import Kind
from nki.ir.algebra import Algebra
from nki.ir.effects import Effects
from nki.ir.instruction import REGISTRY, Inst
from nki.ir.sample import Draw
from nki.isa.tables.operators import OPS
from nki.target import GENERATIONS
from tests.support import instruction_bench

SOURCE = Path(nki.isa.__file__).parent.parent
CLASSES = {cls.__name__ for cls in REGISTRY.values()}
MNEMONICS = REGISTRY.keys() - OPS.keys() - set(dir(Algebra)) - set(get_args(Kind))
"""Without those that name an operator, a primitive or an algorithm among ranks as well."""
FIELDS = {f.name for cls in REGISTRY.values() for f in cls.fields} - {"name"}


def complaints(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and reason of everything in a module that asks which instruction it has before it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nki.isa.instructions"):
            yield node.lineno, "imports a declaration"
        if isinstance(node, ast.Import) and any(a.name.startswith("nki.isa.instructions") for a in node.names):
            yield node.lineno, "imports a declaration"
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = {n.value for side in sides for n in ast.walk(side) if isinstance(n, ast.Constant)}
            equality = isinstance(node.ops[0], ast.Eq | ast.NotEq)
            if texts & MNEMONICS or (equality and any(ast.unparse(side).endswith(".mnemonic") for side in sides)):
                yield node.lineno, "compares a mnemonic"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            name = node.args[1]
            if node.func.id in ("getattr", "hasattr") and isinstance(name, ast.Constant) and name.value in FIELDS:
                yield node.lineno, "reads an argument by name"
            if node.func.id == "isinstance" and {n.id for n in ast.walk(name) if isinstance(n, ast.Name)} & CLASSES:
                yield node.lineno, "asks for a class"
        if isinstance(node, ast.Subscript) and ast.unparse(node).endswith(tuple(f"__dict__[{n!r}]" for n in FIELDS)):
            yield node.lineno, "reads an argument by name"


def outside() -> Iterator[Path]:
    """The modules that declare no instruction and generate nothing from declarations.

    The migration, the advice for Beta 1 and the edits of ``nki optimise`` compare names of functions in source text,
    which happen to be mnemonics, and see no instruction.
    """
    language = SOURCE / "language"
    readers_of_source = {language / "advice" / "beta1", language / "beta1_rewriting"}
    readers_of_source |= {SOURCE / name for name in ("source_text", "migrate", "optimising/edits")}
    for file in sorted(SOURCE.rglob("*.py")):
        if {SOURCE / "isa", *readers_of_source}.isdisjoint(file.parents):
            yield file


def test_nobody_else_knows_an_instruction() -> None:
    lines = [
        f"{file.relative_to(SOURCE)}:{line}: {reason}"
        for file in outside()
        for line, reason in complaints(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from nki.isa.instructions.dma_copy import DmaCopy", "imports"),
        ("import nki.isa.instructions.sendrecv", "imports"),
        ("inst.mnemonic == other", "mnemonic"),
        ("name != 'dma_copy'", "mnemonic"),
        ("name in ('nc_matmul', 'x')", "mnemonic"),
        ("getattr(inst, 'accumulate', False)", "by name"),
        ("hasattr(inst, 'oob_mode')", "by name"),
        ("inst.__dict__['pipe_id']", "by name"),
        ("isinstance(inst, Sendrecv)", "class"),
        ("isinstance(inst, (Inst, CoreBarrier))", "class"),
    ],
)
def test_the_rule_catches(text: str, reason: str) -> None:
    ((line, words),) = complaints(ast.parse(text))
    assert line == 1 and reason in words


def drawn(name: str) -> Inst:
    cls = REGISTRY[name]
    generation = next(t for t in GENERATIONS if instruction_bench.exists(cls, t))
    return instruction_bench.sample(cls, Draw(random.Random(name), generation))


MEETINGS = {
    *("all_gather", "all_reduce", "all_to_all", "collective_permute", "collective_permute_reduce", "reduce_scatter"),
    *("exchange_by_count", "processing_rank_id", "rank_id"),
}
"""The instructions that meet other ranks, or ask which rank this is."""


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_an_effect_names_what_the_instruction_has(name: str) -> None:
    inst: Any = drawn(name)
    effects: Effects = inst.effects
    operands = {f.name for f in inst.operand_fields}
    assert {*effects.scalar_registers, *effects.element_indexed, *effects.row_dims} <= operands
    assert effects.implicit is None or effects.implicit.name in operands
    accesses = inst.accesses()

    def has(*members: Any) -> bool:
        return all(any(member is access for access in accesses) for member in members)

    assert effects.barrier is None or has(inst.as_barrier().data)
    assert effects.exchange is None or has(inst.as_exchange().src, inst.as_exchange().dst)
    assert effects.copy is None or has(inst.as_copy().src, inst.as_copy().dst)
    assert effects.predicate is None or has(inst.write_predicate().dst, inst.write_predicate().operand)
    assert has(*(update.operand for update in inst.update_chains()))
    if effects.accumulation is not None:
        assert len(inst.writes()) == 1
        assert inst.with_accumulation(True).accumulates is True
        assert inst.with_accumulation(False).accumulates is False
    assert effects.external == (name in {"core_barrier", "device_print", "sendrecv"} | MEETINGS)
    assert inst.on_tensor_engine == (inst.engines[0] is nki.isa.engine.tensor)


def test_a_predicate_chooses_places() -> None:
    predicate = drawn("tensor_copy_predicated").write_predicate()
    assert predicate is not None
    contents = np.arange(predicate.dst.size).reshape(predicate.dst.shape) % 3
    assert np.array_equal(predicate.mask(contents), (contents != 0) ^ predicate.inverted)
