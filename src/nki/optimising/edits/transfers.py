"""Edits of transfers: transposes by DMA, rows that a DMA repeats."""

from __future__ import annotations

import ast

from nki.optimising.edit import Edit, unique, with_all
from nki.optimising.kernel_text import Instruction, KernelText, base_of
from nki.source_text.source import code_of

# -- transposes by DMA -------------------------------------------------------------------------------------------------


def transposed_by_dma(text: KernelText) -> list[Edit]:
    """Transposes on the Tensor engine, and the copies of their results, as transfers that transpose what they load."""
    found: list[Edit] = []
    for block in text.blocks:
        inside = text.in_block(block)
        for turned in inside:
            if turned.name != "nc_transpose":
                continue
            copies = [each for each in inside if each.name == "tensor_copy" and each.text("src") == turned.text("dst")]
            loaded = _loaded(text, turned)
            if len(copies) == 1 and loaded is not None and text.is_alone(turned.statement):
                code = f"{text.nisa}.dma_transpose(dst={copies[0].text('dst')}, src={loaded})"
                splices = [(*text.source.span(copies[0].statement), code), *text.without(turned.statement)]
                name = copies[0].base("dst")
                found.append(Edit(f"`{name}` transposed by the DMA", turned.statement.lineno, tuple(splices)))
    return with_all(found, "transposes by the DMA")


def _loaded(text: KernelText, turned: Instruction) -> str | None:
    """The window of HBM that the operand of a transpose was loaded from, as code."""
    data = turned.args.get("data")
    if data is None:
        return None
    for inst in text.instructions:
        if inst.name == "dma_copy" and inst.text("dst") == base_of(data):
            rest = turned.text("data").removeprefix(base_of(data))
            return f"{inst.text('src')}{rest}"
    return None


# -- rows that a DMA repeats -------------------------------------------------------------------------------------------


def repeated_by_dma(text: KernelText) -> list[Edit]:
    """``nl.broadcast_to(nl.load(row), shape)`` as one load that repeats the row."""
    found: list[Edit] = []
    for _, statement in text.statements():
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if text.is_alone(statement):
                pass
            case _:
                continue
        args = text.language_call(value, "broadcast_to")
        inner = text.language_call(args.get("x"), "load") if args is not None else None
        shape = args.get("shape") if args is not None else None
        if inner is None or args is None or not isinstance(shape, ast.Tuple) or "src" not in inner:
            continue
        source, made = code_of(inner["src"]), f"dtype={base_of(inner['src'])}.dtype, buffer={text.nl}.sbuf"
        code = "\n".join(
            [
                f"{name} = {text.nl}.ndarray({code_of(shape)}, {made})",
                f"{text.nisa}.dma_copy(dst={name}, src={source}.broadcast(0, {code_of(shape.elts[0])}))",
            ]
        )
        splices = [text.before(statement, code), *text.without(statement)]
        found.append(Edit(f"`{name}` loaded to all partitions", statement.lineno, tuple(splices)))
    return unique(found)


__all__ = ["repeated_by_dma", "transposed_by_dma"]
