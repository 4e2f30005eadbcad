"""Edits that move statements out of loops, and allocations into them (performance guide: reuse, double buffering)."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from nki.optimising.edit import Edit, unique, with_all
from nki.optimising.indices import RANGES, factor, value_of
from nki.optimising.kernel_text import Block, KernelText, Loop, bound_by, is_simple
from nki.source_text.polynomial import Polynomial
from nki.source_text.source import code_of


def new_tiles(text: KernelText) -> list[Edit]:
    """A tile of its own for each round: the allocation inside of the loop that fills the tile."""
    found: list[Edit] = []
    for block, statement in text.statements():
        if not isinstance(statement, ast.Assign) or not _makes_tiles(statement.value) or not text.is_alone(statement):
            continue
        names = bound_by(statement)
        for loop in text.loops:
            if block not in [*loop.block.around()][1:]:
                continue
            if names & text.uses(*loop.block.statements).writes and text.is_alone(loop.block.statements[0]):
                found.append(_moved_in(text, statement, loop, names, block))
    return with_all(found, "new tiles in each round")


def _moved_in(text: KernelText, statement: ast.Assign, loop: Loop, names: set[str], block: Block) -> Edit:
    splices = [text.before(_first_code(loop.block), text.code(statement))]
    elsewhere = [each for each in block.statements if each is not statement and not _holds(each, loop.start)]
    if not names & {name for each in elsewhere for name in (*text.uses(each).reads, *text.uses(each).writes)}:
        splices += text.without(statement)
    shown = ", ".join(f"`{name}`" for name in sorted(names))
    return Edit(f"a new {shown} in each round of line {loop.start.lineno}", statement.lineno, tuple(splices))


def _first_code(block: Block) -> ast.stmt:
    first = block.statements[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return block.statements[1] if is_text and len(block.statements) > 1 else first


def _holds(statement: ast.stmt, inner: ast.AST) -> bool:
    return any(node is inner for node in ast.walk(statement))


def _makes_tiles(node: ast.AST) -> bool:
    """Test if code calls a function, and none makes a tensor in HBM."""
    has_call = any(isinstance(each, ast.Call) for each in ast.walk(node))
    return has_call and not any(isinstance(each, ast.Attribute) and "hbm" in each.attr for each in ast.walk(node))


def hoisted(text: KernelText) -> list[Edit]:
    """Statements that need nothing of a loop in front of it; results that the inner loop alone decides in a list."""
    found: list[Edit] = []
    for loop in text.loops:
        around = [each for each in text.loops_around(loop.around) if isinstance(each.start, ast.For)]
        for depth in range(len(around), -1, -1):
            crossed = [loop, *around[:depth]]
            found += _in_front(text, crossed)
            if depth:
                found += _kept(text, crossed)
    return unique(found)


def _in_front(text: KernelText, loops: Sequence[Loop]) -> Iterator[Edit]:
    """The movement of what needs none of ``loops``, the innermost first, in front of the last one."""
    for own in (True, False):
        moved = _movable(text, loops, loops, own=own)
        if moved and _worth_moving(text, moved) and len(moved) < len(loops[0].block.statements):
            goal = loops[-1].start
            title = f"{_shown(text, moved)} in front of the loop of line {goal.lineno}"
            code, again = text.code(*moved), _bound_again(text, loops, moved)
            splices = text.without(*moved)
            if again:  # the rest of the loop binds the name, too
                kept = {name: text.fresh(f"kept_{name}") for name in again}
                code += "".join(f"\n{each} = {name}" for name, each in kept.items())
                splices.append(text.before(moved[0], "\n".join(f"{name} = {each}" for name, each in kept.items())))
            yield Edit(title, moved[0].lineno, (*splices, text.before(goal, code)))


def _bound_again(text: KernelText, loops: Sequence[Loop], moved: Sequence[ast.stmt]) -> list[str]:
    """The names that ``moved`` statements bind, and others in the loops too."""
    rest = [s for s in _direct(loops[-1].block, loops[0].block) if not any(s is one for one in moved)]
    return sorted(text.uses(*moved).binds & text.uses(*rest).binds)


def _movable(text: KernelText, crossed: Sequence[Loop], varying: Sequence[Loop], *, own: bool = True) -> list[ast.stmt]:
    """The statements of the body of the first loop that need no variable of ``varying``, and nothing that changes in
    the last one. ``own``: they write to nothing but what they make; others may add to what the round before left.
    """
    inner, outer = crossed[0], crossed[-1]
    body = [each for each in inner.block.statements if _could_move(text, each)]
    variables = {name for loop in varying for name in loop.variables}
    own_variables = {name for loop in crossed for name in loop.variables} - variables
    while True:
        rest = text.uses(*[s for s in _direct(outer.block, inner.block) if not any(s is one for one in body)])
        made = {name for each in body for name in text.uses(each).binds}
        changing = variables | rest.fills | (rest.binds - made - own_variables)
        kept = [
            each
            for each, (reads, binds, fills) in ((each, text.uses(each)) for each in body)
            if changing.isdisjoint(reads | binds | fills) and (not own or fills <= made)
        ]
        if len(kept) == len(body):
            return kept
        body = kept


def _direct(outer: Block, inner: Block) -> list[ast.stmt]:
    """The statements of ``outer`` and of the blocks between it and ``inner``, and of that one by one."""
    on_the_way = list(inner.around())
    chain = on_the_way[: on_the_way.index(outer) + 1]
    owners = {id(each.owner) for each in chain[:-1]}
    return [each for block in chain for each in block.statements if id(each) not in owners]


def _could_move(text: KernelText, statement: ast.stmt) -> bool:
    return (is_simple(statement) or isinstance(statement, ast.For)) and text.is_alone(statement)


def _worth_moving(text: KernelText, statements: Sequence[ast.stmt]) -> bool:
    """Test if something runs among ``statements``: an instruction, or a function that may emit some."""
    calls = [node for each in statements for node in ast.walk(each) if isinstance(node, ast.Call)]
    idle = ("ndarray", "ds", "slice", "range", "len", "arange")
    return any(text.names.full(call.func).rpartition(".")[2] not in idle and code_of(call.func) not in idle
               for call in calls)  # fmt: skip


def _shown(text: KernelText, statements: Sequence[ast.stmt]) -> str:
    """The tiles that statements write, in words."""
    names = {name for each in statements if isinstance(each, ast.Assign) for name in bound_by(each)}
    names = names or set(text.uses(*statements).writes)
    return ", ".join(f"`{name}`" for name in sorted(names)) or f"line {statements[0].lineno}"


# -- tiles that are kept in a list -------------------------------------------------------------------------------------


def _kept(text: KernelText, crossed: Sequence[Loop]) -> Iterator[Edit]:
    """Results that depend on some of the loops alone, computed once for each of their rounds, in a list."""
    outer = crossed[-1]
    if not isinstance(outer.start, ast.For) or any(not isinstance(loop.start, ast.For) for loop in crossed):
        return
    inner = [loop for loop in crossed[:-1] if counter(loop) is not None]
    for needed in (inner[:1], inner):
        if not needed or (needed is inner and len(inner) == 1):
            continue
        varying = [loop for loop in crossed if loop not in needed]
        moved = _movable(text, crossed, varying)
        used = text.uses(*moved).reads if moved else frozenset[str]()
        if moved and all(used & loop.variables for loop in needed) and _worth_moving(text, moved):
            yield from _in_list(text, crossed, needed, moved)


def _in_list(
    text: KernelText, crossed: Sequence[Loop], needed: Sequence[Loop], moved: Sequence[ast.stmt]
) -> Iterator[Edit]:
    rest = [each for each in crossed[0].block.statements if not any(each is one for one in moved)]
    bound = {name for each in moved if isinstance(each, ast.Assign) for name in bound_by(each)}
    names = sorted(bound & {node.id for each in rest for node in ast.walk(each) if isinstance(node, ast.Name)})
    if not names or not rest:
        return
    lists = {name: text.fresh(f"all_{name}") for name in names}
    body = "\n".join([text.code(*moved), *(f"{lists[name]}.append({name})" for name in names)])
    made = "\n".join([*(f"{each} = []" for each in lists.values()), in_loops(needed, body)])
    index = list_index(needed)
    taken = "\n".join(f"{name} = {lists[name]}[{index}]" for name in names)
    goal = crossed[-1].start
    splices = [text.before(goal, made), text.before(moved[0], taken), *text.without(*moved)]
    title = f"{_shown(text, moved)} of all rounds in front of the loop of line {goal.lineno}"
    yield Edit(title, moved[0].lineno, tuple(splices))


def in_loops(loops: Sequence[Loop], body: str) -> str:
    """Code in loops, the innermost being the first one."""
    for loop in loops:
        assert isinstance(loop.start, ast.For)
        head = f"for {code_of(loop.start.target)} in {code_of(loop.start.iter)}:"
        body = f"{head}\n{textwrap.indent(body, '    ')}"
    return body


class Counted(NamedTuple):
    """A counted loop: its variable, and the values of its range."""

    variable: str
    first: Polynomial
    end: Polynomial
    step: Polynomial

    @classmethod
    def of(cls, loop: Loop) -> Counted | None:
        """None for other loops."""
        match loop.start:
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=called, args=args, keywords=[])) if (
                1 <= len(args) <= 3 and code_of(called).rpartition(".")[2] in RANGES
            ):
                values = [value_of(each) for each in args]
            case _:
                return None
        first = Polynomial.of(0) if len(values) == 1 else values[0]
        step = values[2] if len(values) == 3 else Polynomial.of(1)
        return cls(name, first, values[min(1, len(values) - 1)], step)


def counter(loop: Loop) -> tuple[Polynomial, Polynomial] | None:
    """The number of a round of a counted loop, and the count of rounds; None for others."""
    counted = Counted.of(loop)
    if counted is None:
        return None
    number, count = Polynomial.of(counted.variable) - counted.first, counted.end - counted.first
    if counted.step.constant == 1:
        return number, count
    step = factor(counted.step.text)
    return Polynomial.of(f"{factor(number.text)} // {step}"), Polynomial.of(f"{factor(count.text)} // {step}")


def list_index(needed: Sequence[Loop]) -> str:
    """The place of a round in the list of all rounds of nested loops, the innermost being the first one."""
    counters = [found for loop in needed if (found := counter(loop)) is not None]
    index = counters[-1][0]
    for number, count in reversed(counters[:-1]):
        index = index * count + number
    return index.text


# -- loops on the device -----------------------------------------------------------------------------------------------


def unrolled(text: KernelText) -> list[Edit]:
    """Loops on the device as loops that the compiler unrolls, wholly, or four rounds in one."""
    found: list[Edit] = []
    for loop in text.loops:
        line = loop.start.lineno
        match loop.end, loop.start:
            case ast.For(iter=ast.Call(func=called)), _ if text.names.full(called) == "nki.language.dynamic_range":
                found.append(Edit(f"the loop of line {line} unrolled", line, (text.replacing(called, "range"),)))
            case ast.Expr(value=ast.Call(args=[first, last, body, *step])), ast.FunctionDef() as function:
                start, end, name = code_of(first), code_of(last), code_of(body)
                variable = function.args.args[0].arg
                bounds = ", ".join([start, end, *map(code_of, step)])
                whole = f"for {variable} in range({bounds}):\n    {name}({variable})"
                place = text.source.span(loop.end)
                indent = text.indent(loop.end)
                found.append(Edit(f"the loop of line {line} unrolled", line,
                                  ((*place, textwrap.indent(whole, indent).lstrip()),)))  # fmt: skip
                if start == "0" and not step:
                    found.append(_four_at_once(text, loop, name, variable, end))
            case _:
                pass
    return found


def _four_at_once(text: KernelText, loop: Loop, name: str, variable: str, end: str) -> Edit:
    four = text.fresh(f"four_of_{name}")
    code = (
        f"def {four}({variable}):\n    for part in range(4):\n        {name}({variable} * 4 + part)\n\n"
        f"{text.nl}.fori_loop(0, ({end}) // 4, {four})"
    )
    splices = [text.before(loop.end, code), *text.without(loop.end)]
    return Edit(f"four rounds of the loop of line {loop.start.lineno} in one", loop.start.lineno, tuple(splices))


__all__ = ["Counted", "counter", "hoisted", "in_loops", "list_index", "new_tiles", "unrolled"]
