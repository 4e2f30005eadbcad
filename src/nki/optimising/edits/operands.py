"""Edits that store operands of products in bfloat16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki.optimising.edit import Edit, Splice, together, unique
from nki.optimising.kernel_text import Instruction, KernelText, is_at
from nki.source_text.source import code_of

OPERANDS = ("stationary", "moving")


def in_bfloat16(text: KernelText, lines: frozenset[int]) -> list[Edit]:
    """Operands of the products at ``lines`` in bfloat16: allocated and loaded so, or converted in front of them."""
    products = [inst for inst in text.instructions if inst.name == "nc_matmul" and is_at(inst.statement, lines)]
    allocated = list(_allocated(text, products))
    converted = [edit for inst in products if (edit := _converted(text, inst)) is not None]
    converted += _arguments_of_matmul(text, lines)
    shared = [together(allocated, "operands of products in bfloat16"), together(converted, "products of bfloat16")]
    return unique([*(each for each in shared if each is not None), *allocated, *converted])


def _allocated(text: KernelText, products: list[Instruction]) -> Iterator[Edit]:
    """Both operands of all products with the dtype in their allocations, one edit for each tile."""
    seen: set[int] = set()
    for inst in products:
        for operand in OPERANDS:
            for name in sorted(text.roots([inst.base(operand)])):
                made = text.allocation(name, text.block_of(inst.statement))
                if made is None or id(made) in seen:
                    continue
                seen.add(id(made))
                if (splice := _of_dtype(text, made.value)) is not None:
                    yield Edit(f"`{name}` in bfloat16", made.lineno, (splice,))


def _of_dtype(text: KernelText, value: ast.expr) -> Splice | None:
    """The change of an allocation, or of a load, to bfloat16."""
    for node in ast.walk(value):
        args = text.language_call(node, "ndarray", "zeros", "load", "load_transpose2d")
        if args is not None and isinstance(node, ast.Call):
            return text.with_argument(node, "dtype", f"{text.nl}.bfloat16", args)
    return None


def _converted(text: KernelText, inst: Instruction) -> Edit | None:
    """Copies of both operands in bfloat16 in front of the product."""
    if not all(inst.args.get(each) is not None for each in OPERANDS) or not text.is_alone(inst.statement):
        return None
    splices: list[Splice] = []
    lines: list[str] = []
    for operand in OPERANDS:
        name = text.fresh(f"{inst.base(operand) or operand}_bf16")
        lines.append(f"{name} = {text.nl}.copy({inst.text(operand)}, dtype={text.nl}.bfloat16)")
        splices.append(text.replacing(inst.args[operand], name))
    splices.append(text.before(inst.statement, "\n".join(lines)))
    return Edit("operands copied to bfloat16", inst.statement.lineno, tuple(splices))


def _arguments_of_matmul(text: KernelText, lines: frozenset[int]) -> Iterator[Edit]:
    """Operands of ``nl.matmul`` in bfloat16."""
    for _, statement in text.statements():
        if not isinstance(statement, ast.Assign | ast.Expr) or not is_at(statement, lines):
            continue
        for node in ast.walk(statement):
            args = text.language_call(node, "matmul")
            if args is None or not {"x", "y"} <= args.keys():
                continue
            splices = [
                text.replacing(args[each], f"{text.nl}.copy({code_of(args[each])}, dtype={text.nl}.bfloat16)")
                for each in ("x", "y")
            ]
            yield Edit("operands of nl.matmul in bfloat16", statement.lineno, tuple(splices))


__all__ = ["in_bfloat16"]
