"""Edits that give instructions another engine, all of a line or every second round."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from nki.optimising.edit import Edit, unique, with_all
from nki.optimising.edits.loops import counter
from nki.optimising.indices import factor
from nki.optimising.kernel_text import Instruction, KernelText, is_at
from nki.source_text.source import code_of


def on_other_engine(text: KernelText, goal: str, lines: frozenset[int]) -> list[Edit]:
    """Instructions at ``lines`` on the engine ``goal``."""
    found = [(inst, _set(text, inst, f"{text.nisa}.engine.{goal}")) for inst in _at(text, lines)]
    whole = [Edit(f"{inst.name} on {goal}", inst.statement.lineno, (splice,)) for inst, splice in found]
    return unique([*with_all(whole, f"{len(whole)} instructions on {goal}"), *_in_turn(text, goal, lines)])


def _at(text: KernelText, lines: frozenset[int]) -> Iterator[Instruction]:
    for inst in text.instructions:
        if is_at(inst.statement, lines) and "engine" in inst.parameters and inst.name != "dma_copy":
            yield inst


def _round(text: KernelText, inst: Instruction) -> str | None:
    """The number of the round of the loop around an instruction, as code; None without a counted loop."""
    loop = next(iter(text.loops_around(text.block_of(inst.statement))), None)
    counted = None if loop is None else counter(loop)
    return None if counted is None else factor(counted[0].text)


def _set(text: KernelText, inst: Instruction, code: str) -> tuple[int, int, str]:
    return text.with_argument(inst.call, "engine", code, inst.args)


def _in_turn(text: KernelText, goal: str, lines: frozenset[int]) -> list[Edit]:
    """Every second round of the loop around an instruction on ``goal``, the others where they are."""
    edits: list[Edit] = []
    for inst in _at(text, lines):
        own = inst.args.get("engine")
        if own is not None and not isinstance(own, ast.Attribute):
            continue
        number = _round(text, inst)
        if number is None:
            continue
        engine = f"{text.nisa}.engine"
        here = code_of(own) if own is not None else f"{engine}.{_OTHER.get(goal, 'vector')}"
        code = f"{engine}.{goal} if {number} % 2 else {here}"
        edits.append(Edit(f"every second {inst.name} on {goal}", inst.statement.lineno, (_set(text, inst, code),)))
    return with_all(edits, f"every second of {len(edits)} instructions on {goal}")


def by_other_descriptors(text: KernelText, modes: Iterable[str], lines: frozenset[int]) -> list[Edit]:
    """Transfers at ``lines`` with descriptors of another origin: all of a line, or the ones of every second round."""
    found: list[Edit] = []
    for inst in text.instructions:
        if inst.name != "dma_copy" or "dge_mode" in inst.args or not is_at(inst.statement, lines):
            continue
        number = _round(text, inst)
        for mode in modes:
            code = f"{text.nisa}.dge_mode.{mode}"
            line, title = inst.statement.lineno, f"descriptors of dma_copy: {mode}"
            found.append(Edit(title, line, (text.with_argument(inst.call, "dge_mode", code, inst.args),)))
            if number is not None:
                turn = f"{code} if {number} % 2 else {text.nisa}.dge_mode.unknown"
                splice = text.with_argument(inst.call, "dge_mode", turn, inst.args)
                found.append(Edit(f"{title}, every second round", line, (splice,)))
    return unique(found)


_OTHER = {"vector": "scalar", "scalar": "vector", "gpsimd": "vector"}
"""The engine of the other rounds, where the kernel names none."""

__all__ = ["by_other_descriptors", "on_other_engine"]
