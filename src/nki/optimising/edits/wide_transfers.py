"""Edits that move the columns of all rounds of a loop in one transfer (performance guide: long rows for the DMA)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nki.optimising.edit import Edit, with_all
from nki.optimising.edits.loops import Counted, counter, in_loops, list_index
from nki.optimising.indices import value_of
from nki.optimising.kernel_text import Block, Instruction, KernelText, Loop
from nki.source_text.polynomial import Polynomial
from nki.source_text.source import code_of, names_in, replaced


class Window(NamedTuple):
    """The part ``owner[rows, low:high]`` of a tensor in HBM."""

    node: ast.Subscript
    rows: ast.expr | None
    low: ast.expr
    high: ast.expr

    @property
    def names(self) -> set[str]:
        return names_in(self.rows, self.low, self.high)

    def code(self, start: Polynomial, end: Polynomial) -> str:
        """The same rows, from column ``start`` to ``end``."""
        rows = f"{code_of(self.rows)}, " if self.rows is not None else ""
        return f"{code_of(self.node.value)}[{rows}{start.text}:{end.text}]"


class Transfer(NamedTuple):
    """A load into, or a store of, the tile ``name``, which ``made`` makes; ``gone`` has no use in the wider form.

    ``code`` gives the lines that make the wider tile and load it: from its name, the window and the columns.
    ``stored`` gives the line that stores it; None for a load.
    """

    name: str
    window: Window
    made: ast.Assign
    gone: tuple[ast.stmt, ...]
    code: Callable[[str, str, str], str]
    stored: Callable[[str, str], str] | None = None


def merged(text: KernelText) -> list[Edit]:
    """Loads and stores of neighbouring columns in the rounds of a loop as one, in front of the loop or behind it."""
    found: list[Edit] = []
    for block in text.blocks:
        for transfer in _transfers(text, block):
            edits = [_of_all_rounds(text, block, transfer, loop) for loop in text.loops_around(block)]
            found += [edit for edit in edits if edit is not None]
    return with_all(found, "transfers of all rounds in one")


def _of_all_rounds(text: KernelText, block: Block, transfer: Transfer, loop: Loop) -> Edit | None:
    """One transfer for all rounds of ``loop``; where rows depend on loops inside it, one for each of their rounds."""
    counted, window = Counted.of(loop), transfer.window
    if counted is None:
        return None
    variable = counted.variable
    if variable not in names_in(window.low) or variable not in names_in(window.high):
        return None
    if variable in names_in(window.rows):
        return None
    inside = text.loops_around(block)
    needed = [each for each in inside[: inside.index(loop)] if each.variables & window.names]
    if any(counter(each) is None for each in needed) or (needed and transfer.stored is not None):
        return None
    start = value_of(window.low, {variable: counted.first})
    end = value_of(window.high, {variable: counted.end - counted.step})
    begin, stop = value_of(window.low) - start, value_of(window.high) - start
    name, whole = transfer.name, text.fresh(f"all_{transfer.name}")
    view = window.code(start, end)
    taken = f"{whole}[{list_index(needed)}]" if needed else whole
    splices = [(*text.source.span(transfer.made), f"{name} = {taken}[:, {begin.text}:{stop.text}]")]
    splices += text.without(*transfer.gone)
    wide = text.fresh(f"wide_{name}") if needed else whole
    code = transfer.code(wide, view, (end - start).text)
    if needed:
        code = f"{whole} = []\n" + in_loops(needed, f"{code}\n{whole}.append({wide})")
    splices.append(text.before(loop.start, code))
    if transfer.stored is not None:
        splices.append(text.behind(loop.end, transfer.stored(whole, view)))
    verb = "load" if transfer.stored is None else "store"
    title = f"one {verb} of `{name}` for all rounds of line {loop.start.lineno}"
    return Edit(title, transfer.made.lineno, tuple(splices))


# -- the transfers of a block ------------------------------------------------------------------------------------------


def _transfers(text: KernelText, block: Block) -> Iterator[Transfer]:
    for inst in text.in_block(block):
        if inst.name == "dma_copy" and text.is_alone(inst.statement):
            yield from _of_copy(text, block, inst)
    for statement in block.statements:
        yield from _of_call(text, statement)


def _of_copy(text: KernelText, block: Block, inst: Instruction) -> Iterator[Transfer]:
    """The transfer that ``nisa.dma_copy`` makes with a tile of the same block."""
    for tile, outside in (("dst", "src"), ("src", "dst")):
        name, window = inst.text(tile), _window(inst.args.get(outside))
        made = text.allocation(name, block) if name.isidentifier() else None
        size = None if made is None else _columns(text, made)
        if window is None or made is None or size is None:
            continue
        if text.block_of(made) is not block or not text.is_alone(made):
            continue
        nisa, loads, value, columns = text.nisa, tile == "dst", made.value, size

        def code(
            wide: str, view: str, count: str, nisa: str = nisa, loads: bool = loads, value: ast.expr = value,
            columns: ast.expr = columns,
        ) -> str:  # fmt: skip
            allocated = f"{wide} = {replaced(value, [(columns, count)])}"
            return f"{allocated}\n{nisa}.dma_copy(dst={wide}, src={view})" if loads else allocated

        def stored(wide: str, view: str, nisa: str = nisa) -> str:
            return f"{nisa}.dma_copy(dst={view}, src={wide})"

        yield Transfer(name, window, made, (inst.statement,), code, None if loads else stored)


def _of_call(text: KernelText, statement: ast.stmt) -> Iterator[Transfer]:
    """The load that ``nl.load``, or a function of the file, makes of one window."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if text.is_alone(statement):
            pass
        case _:
            return
    is_own = isinstance(call.func, ast.Name) and any(call.func.id == each.name for each in text.functions)
    if not is_own and text.language_call(call, "load") is None:
        return
    windows = [window for each in (*call.args, *(k.value for k in call.keywords)) if (window := _window(each))]
    for window in windows if len(windows) == 1 else ():

        def code(wide: str, view: str, _: str, node: ast.Subscript = window.node) -> str:
            return f"{wide} = {replaced(call, [(node, view)])}"

        yield Transfer(name, window, statement, (), code)


def _window(node: ast.expr | None) -> Window | None:
    match node:
        case ast.Subscript(slice=ast.Tuple(elts=[rows, ast.Slice(lower=low, upper=high, step=None)])):
            return Window(node, rows, low, high) if low is not None and high is not None else None
        case _:
            return None


def _columns(text: KernelText, made: ast.Assign) -> ast.expr | None:
    """The number of columns of an allocation ``nl.ndarray((rows, columns), …)``."""
    args = text.language_call(made.value, "ndarray")
    match args and args.get("shape"):
        case ast.Tuple(elts=[_, columns]):
            return columns
        case _:
            return None


__all__ = ["merged"]
