"""Edits that let one instruction do the work of two (performance guide: combine instructions)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Final

from nki.optimising.edit import Edit, with_all
from nki.optimising.kernel_text import Instruction, KernelText
from nki.source_text.source import code_of

Pattern = Callable[[KernelText, Instruction, Instruction], str | None]
"""The code of one instruction that does the work of two, where the second reads what the first writes; or None."""


def combined(text: KernelText) -> list[Edit]:
    """Pairs of instructions of one block as one instruction, in place of the second or of the first."""
    found: list[Edit] = []
    for block in text.blocks:
        for first, second in combinations(text.in_block(block), 2):
            found += _of_pair(text, first, second)
    return with_all(found, "pairs of instructions as one")


def _of_pair(text: KernelText, first: Instruction, second: Instruction) -> Iterator[Edit]:
    if not text.is_alone(first.statement) or not text.is_alone(second.statement):
        return
    for pattern in PATTERNS:
        code = pattern(text, first, second)
        if code is None:
            continue
        for kept, gone in ((second, first), (first, second)):  # some operands may come between the two
            splices = [(*text.source.span(kept.statement), code), *text.without(gone.statement)]
            yield Edit(f"{first.name} and {second.name} as one", kept.statement.lineno, tuple(splices))


def _is_plain(inst: Instruction) -> bool:
    """True for a tensor_scalar of one operator."""
    return inst.name == "tensor_scalar" and not inst.args.keys() & {"op1", "operand1"}


def _reads(inst: Instruction, parameter: str, first: Instruction) -> bool:
    return inst.text(parameter) != "" and inst.text(parameter) == first.text("dst")


def _call(text: KernelText, name: str, **args: str) -> str:
    return f"{text.nisa}.{name}({', '.join(f'{key}={value}' for key, value in args.items() if value)})"


def _both_operators(text: KernelText, first: Instruction, second: Instruction) -> str | None:
    if not _is_plain(first) or not _is_plain(second) or not _reads(second, "data", first):
        return None
    args = {key: first.text(key) for key in ("op0", "operand0", "reverse0")}
    args |= {"op1": second.text("op0"), "operand1": second.text("operand0"), "reverse1": second.text("reverse0")}
    engine = second.text("engine") or first.text("engine")
    return _call(text, "tensor_scalar", dst=second.text("dst"), data=first.text("data"), **args, engine=engine)


def _scaled_first(text: KernelText, first: Instruction, second: Instruction) -> str | None:
    """A product, and a sum, as ``scale`` and ``bias`` of the activation that reads them."""
    if first.name != "tensor_scalar" or second.name not in ("activation", "activation_reduce"):
        return None
    if not _reads(second, "data", first) or first.args.keys() & {"reverse0", "reverse1"}:
        return None
    if _op(text, first, "op0") != "multiply" or second.args.keys() & {"scale"}:
        return None
    args = {key: code_of(value) for key, value in second.args.items()}
    args |= {"data": first.text("data"), "scale": first.text("operand0")}
    if "op1" in first.args:
        if _op(text, first, "op1") != "add" or "bias" in second.args:
            return None
        args["bias"] = first.text("operand1")
    return _call(text, second.name, **args)


def _op(text: KernelText, inst: Instruction, parameter: str) -> str:
    return text.names.full(inst.args[parameter]).rpartition(".")[2] if parameter in inst.args else ""


def _sum_beside(text: KernelText, first: Instruction, second: Instruction) -> str | None:
    if first.name != "activation" or second.name != "tensor_reduce" or not _reads(second, "data", first):
        return None
    if _op(text, second, "op") != "add" or second.args.keys() & {"negate"} or first.args.keys() & {"reduce_op"}:
        return None
    args = {key: code_of(value) for key, value in first.args.items()}
    args |= {"reduce_op": second.text("op"), "reduce_res": second.text("dst")}
    args["reduce_cmd"] = f"{text.nisa}.reduce_cmd.reset_reduce"
    return _call(text, "activation", **args)


def _scaled_tile(text: KernelText, first: Instruction, second: Instruction) -> str | None:
    if not _is_plain(first) or second.name != "tensor_tensor":
        return None
    reads = [_reads(second, each, first) for each in ("data1", "data2")]
    if sum(reads) != 1:
        return None
    args = {"data": first.text("data"), "op0": first.text("op0"), "operand0": first.text("operand0")}
    args |= {"op1": second.text("op"), "operand1": second.text("data1" if reads[1] else "data2")}
    args["reverse0"] = first.text("reverse0")
    if reads[1]:
        args["reverse1"] = "True"
    return _call(text, "scalar_tensor_tensor", dst=second.text("dst"), **args)


def _converted_last(text: KernelText, first: Instruction, second: Instruction) -> str | None:
    """A copy of a result as the result of the instruction."""
    others = ("nc_matmul", "nc_transpose", "dma_copy", "memset")  # into PSUM, by the DMA, or not worth it
    if second.name != "tensor_copy" or not _reads(second, "src", first) or first.name in others:
        return None
    if "dst" not in first.args or second.base("dst") == first.base("dst"):
        return None
    args = {key: code_of(value) for key, value in first.args.items()} | {"dst": second.text("dst")}
    return _call(text, first.name, **args)


PATTERNS: Final[tuple[Pattern, ...]] = (_both_operators, _scaled_first, _sum_beside, _scaled_tile, _converted_last)


__all__ = ["combined"]
