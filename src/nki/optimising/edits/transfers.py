"""Edits of transfers: loads of all rounds in one, transposes by DMA, rows that a DMA repeats."""

from __future__ import annotations

import ast

from nki.language.beta1_rewriting.polynomial import Polynomial
from nki.language.beta1_rewriting.source import code_of, replaced
from nki.optimising.edit import Edit, together, unique
from nki.optimising.indices import RANGES, value_of
from nki.optimising.kernel_text import Instruction, KernelText, Loop, base_of

Bounds = tuple[str, Polynomial, Polynomial]
"""The variable of a counted loop, its first value, and its last."""

# -- loads of all rounds in one ----------------------------------------------------------------------------------------


def merged(text: KernelText) -> list[Edit]:
    """Loads and stores of neighbouring columns in the rounds of a loop as one, in front of the loop or behind it."""
    found: list[Edit] = []
    for loop in text.loops:
        bounds = _bounds(loop)
        if bounds is not None:
            found += [edit for inst in text.in_block(loop.block) if (edit := _of_all_rounds(text, loop, inst, bounds))]
    shared = together(found, "transfers of all rounds in one")
    return unique([*([shared] if shared else []), *found])


def _bounds(loop: Loop) -> Bounds | None:
    match loop.start:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=called, args=args, keywords=[])) if (
            1 <= len(args) <= 3 and code_of(called).rpartition(".")[2] in RANGES
        ):
            pass
        case _:
            return None
    values = [value_of(each, {}) for each in args]
    first = Polynomial.of(0) if len(values) == 1 else values[0]
    step = values[2] if len(values) == 3 else Polynomial.of(1)
    return name, first, values[min(1, len(values) - 1)] - step


def _of_all_rounds(
    text: KernelText, loop: Loop, inst: Instruction, bounds: tuple[str, Polynomial, Polynomial]
) -> Edit | None:
    """One transfer for all rounds of ``loop`` instead of ``inst``, if its columns depend on the round alone."""
    if inst.name != "dma_copy" or not text.is_alone(inst.statement):
        return None
    for tile, outside in (("dst", "src"), ("src", "dst")):
        window = inst.args.get(outside)
        name = inst.text(tile)
        made = text.allocation(name, loop.block) if name.isidentifier() else None
        if made is None or text.block_of(made) is not loop.block or not text.is_alone(made):
            continue
        columns = _columns(window)
        if columns is None or _size(text, made) is None:
            continue
        rows, low, high = columns
        variable, first, last = bounds
        if variable not in _names(low) or _names(rows) & {variable}:
            continue
        start, end = value_of(low, {variable: first}), value_of(high, {variable: last})
        begin, stop = value_of(low, {}) - start, value_of(high, {}) - start
        whole = text.fresh(f"all_{name}")
        around = f"{code_of(rows)}, " if rows is not None else ""
        view = f"{_owner(window)}[{around}{start.text}:{end.text}]"
        allocated = _sized_like(text, made, whole, (end - start).text)
        moved = f"{text.nisa}.dma_copy({tile}={whole}, {outside}={view})"
        loads = tile == "dst"
        splices = [(*text.source.span(made), f"{name} = {whole}[:, {begin.text}:{stop.text}]")]
        splices += text.without(inst.statement)
        splices.append(text.before(loop.start, allocated + ("\n" + moved if loads else "")))
        if not loads:
            splices.append(text.behind(loop.end, moved))
        verb = "load" if loads else "store"
        return Edit(f"one {verb} of `{name}` for all rounds of line {loop.start.lineno}", made.lineno, tuple(splices))
    return None


def _columns(window: ast.expr | None) -> tuple[ast.expr | None, ast.expr, ast.expr] | None:
    """The rows of a window ``x[rows, low:high]``, and the ends of its columns."""
    match window:
        case ast.Subscript(slice=ast.Tuple(elts=[rows, ast.Slice(lower=low, upper=high, step=None)])):
            return (rows, low, high) if low is not None and high is not None else None
        case _:
            return None


def _owner(window: ast.expr | None) -> str:
    assert isinstance(window, ast.Subscript)
    return code_of(window.value)


def _size(text: KernelText, made: ast.Assign) -> ast.expr | None:
    """The number of columns of an allocation ``nl.ndarray((rows, columns), …)``."""
    args = text.language_call(made.value, "ndarray")
    match args and args.get("shape"):
        case ast.Tuple(elts=[_, columns]):
            return columns
        case _:
            return None


def _sized_like(text: KernelText, made: ast.Assign, name: str, columns: str) -> str:
    """An allocation as another one, under another name and with another number of columns."""
    size = _size(text, made)
    assert size is not None
    return f"{name} = {replaced(made.value, [(size, columns)])}"


def _names(node: ast.expr | None) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} if node is not None else set()


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
    shared = together(found, "transposes by the DMA")
    return unique([*([shared] if shared else []), *found])


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


__all__ = ["merged", "repeated_by_dma", "transposed_by_dma"]
