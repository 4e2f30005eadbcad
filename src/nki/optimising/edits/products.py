"""Edits that keep sums of products in PSUM."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki.optimising.edit import Edit, Splice, with_all
from nki.optimising.kernel_text import Block, Instruction, KernelText, Loop


def sums_in_psum(text: KernelText) -> list[Edit]:
    """Sums that Vector adds up, product by product, in the tile of PSUM that the products write to."""
    found = [edit for loop in text.loops for edit in _of_loop(text, loop)]
    return with_all(found, "sums of products in PSUM")


def _of_loop(text: KernelText, loop: Loop) -> Iterator[Edit]:
    inside = text.in_block(loop.block)
    for added in inside:
        pair = _sum(text, added)
        if pair is None or not text.is_alone(added.statement):
            continue
        total, product = pair
        matmuls = [inst for inst in inside if inst.name == "nc_matmul" and inst.base("dst") == product]
        made = text.allocation(product, loop.block)
        if len(matmuls) != 1 or made is None or not text.is_alone(made):
            continue
        splices: list[Splice] = [*text.without(added.statement)]
        splices.append(text.before(loop.start, text.code(made)))
        if text.block_of(made) is loop.block:
            splices += text.without(made)
        if "accumulate" in matmuls[0].args:
            splices.append(text.replacing(matmuls[0].args["accumulate"], "None"))
        copy = f"{text.nisa}.tensor_copy(dst={total}, src={added.text(_operand(added, product))})"
        splices.append(text.behind(loop.end, copy))
        for filled in _filled(text, total.partition("[")[0].strip(), loop.around, loop):
            splices += text.without(filled.statement)
        yield Edit(f"the sum `{total}` in PSUM", added.statement.lineno, tuple(splices))


def _sum(text: KernelText, inst: Instruction) -> tuple[str, str] | None:
    """The tile that an instruction adds to in place, as code, and the name of what it adds."""
    if inst.name != "tensor_tensor" or text.names.full(inst.args.get("op", ast.Constant(0))) != "nki.language.add":
        return None
    total = inst.text("dst")
    for same, other in (("data1", "data2"), ("data2", "data1")):
        if inst.text(same) == total and inst.base(other) and inst.base(other) != inst.base("dst"):
            return total, inst.base(other)
    return None


def _operand(inst: Instruction, product: str) -> str:
    return "data1" if inst.base("data1") == product else "data2"


def _filled(text: KernelText, total: str, block: Block, loop: Loop) -> list[Instruction]:
    """The instructions in front of ``loop`` that fill the tile ``total`` with zeros."""
    return [
        inst
        for inst in text.in_block(block)
        if inst.name == "memset" and inst.base("dst") == total and inst.statement.lineno < loop.start.lineno
        and isinstance(value := inst.args.get("value"), ast.Constant) and value.value == 0
        and text.is_alone(inst.statement)
    ]  # fmt: skip


__all__ = ["sums_in_psum"]
