"""Wrong kernels made of right ones: one change in the source of a pair's kernel, as people slip.

``candidates`` lists the changes of a kernel, in the order of its source. ``mutants.jsonl`` names 500 that compile and
compute another function: ``python -m tests.proofs.choose_mutants`` writes it. What it does not hold is refused by the
compiler, or equal, or apart by no more than rounding, or not finite.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import inspect
import itertools
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nki.jit import Kernel

from .pair import Pair, Side
from .pairs import PAIRS

LIST = Path(__file__).with_name("mutants.jsonl")
SAME_KIND = (
    ("greater_equal", "greater", "less_equal", "less", "equal"),
    ("maximum", "minimum"),
    ("add", "subtract", "multiply"),
    ("exp", "tanh", "sigmoid", "silu", "square"),
    ("rsqrt", "sqrt"),
)
"""Operators that are taken for each other."""
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Div: "*", ast.Pow: "*"}
DROPPED = (
    "bias",
    "scale",
    "negate",
    "accumulate",
    "offset",
    "op1",
    "reduce_cmd",
    "channel_multiplier",
    "on_false_value",
)


Text = Callable[[ast.AST], str]
"""The source of an expression."""


@dataclass(frozen=True)
class Change:
    """A part of a module's source, and what stands there instead. ``name`` is unique in a kernel."""

    name: str
    line: int
    first: int
    last: int
    text: str

    def applied(self, source: str) -> str:
        return source[: self.first] + self.text + source[self.last :]


@dataclass(frozen=True)
class Mutant:
    """A pair, the side that is changed, the change, and its first line before and afterwards."""

    pair: str
    side: Side
    change: str
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.pair}: {self.side}, {self.change}"

    @property
    def right(self) -> Callable[..., Any]:
        """The side that stays."""
        return PAIRS[self.pair].side("new" if self.side == "old" else "old")

    def wrong(self, folder: Path) -> Kernel:
        """The changed kernel, from a module that is written into ``folder``."""
        return loaded(PAIRS[self.pair], self.side, changes(PAIRS[self.pair], self.side)[self.change], folder)


def stored() -> list[Mutant]:
    """The chosen mutants."""
    return [Mutant(**json.loads(line)) for line in LIST.read_text(encoding="utf-8").splitlines()]


def described(pair: Pair, side: Side, change: Change) -> Mutant:
    """The mutant as the list has it."""
    before, after = source_of(pair, side), change.applied(source_of(pair, side))
    row = change.line - 1
    return Mutant(
        pair.name, side, change.name, change.line, before.splitlines()[row].strip(), after.splitlines()[row].strip()
    )


def kernel_of(pair: Pair, side: Side) -> Kernel:
    kernel = pair.side(side)
    assert isinstance(kernel, Kernel)
    return kernel


def source_of(pair: Pair, side: Side) -> str:
    return _text(inspect.getfile(kernel_of(pair, side).func))


@functools.cache
def _parsed(file: str) -> ast.Module:
    return ast.parse(_text(file))


@functools.cache
def _text(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def loaded(pair: Pair, side: Side, change: Change, folder: Path) -> Kernel:
    """The kernel of the changed module, on the grid of the original."""
    kernel = kernel_of(pair, side)
    text = change.applied(source_of(pair, side))
    name = "mutant_" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    changed = getattr(module, kernel.func.__name__)
    return changed[kernel.grid] if kernel.grid else changed


def changes(pair: Pair, side: Side) -> dict[str, Change]:
    """The changes of a kernel by name."""
    kernel = kernel_of(pair, side)
    return changes_of(inspect.getfile(kernel.func), kernel.func.__name__)


def changes_with_parts(pair: Pair, side: Side) -> list[Change]:
    """The changes of a kernel and of the functions of its module that it calls."""
    file, waiting = inspect.getfile(kernel_of(pair, side).func), [kernel_of(pair, side).func.__name__]
    functions = {node.name: node for node in _parsed(file).body if isinstance(node, ast.FunctionDef)}
    for name in waiting:
        names = [node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)]
        waiting += sorted({each for each in names if each in functions} - set(waiting))
    return [change for name in waiting for change in changes_of(file, name).values()]


@functools.cache
def changes_of(file: str, name: str) -> dict[str, Change]:
    """The changes of a function of a module by name."""
    source = _text(file)
    function = next(n for n in _parsed(file).body if isinstance(n, ast.FunctionDef) and n.name == name)
    lines = source.splitlines(keepends=True)
    starts = list(itertools.accumulate(map(len, lines), initial=0))

    def place(line: int, column: int) -> int:
        """The character that ``ast`` counts in bytes."""
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    def extent(node: Any) -> tuple[int, int]:
        return place(node.lineno, node.col_offset), place(node.end_lineno, node.end_col_offset)

    found: dict[str, Change] = {}
    count: Counter[str] = Counter()
    for kind, node, text in candidates(function, lambda node: source[slice(*extent(node))]):
        first, last = extent(node)
        if source[first:last] != text:
            count[kind] += 1
            change = Change(f"{kind} {count[kind]}", node.lineno, first, last, text)
            found[change.name] = change
    return found


def candidates(function: ast.FunctionDef, text: Text) -> Iterator[tuple[str, Any, str]]:
    """What kind of slip, the part of the source, and what is written there."""
    body = [statement for statement in ast.walk(function) if isinstance(statement, ast.stmt) and statement != function]
    for statement in sorted(body, key=lambda s: (s.lineno, s.col_offset)):
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            yield "dropped", statement, "pass"
        if isinstance(statement, ast.If):
            yield "condition", statement.test, f"not ({text(statement.test)})"
        for node in _expressions(statement):
            yield from _constants(node)
            yield from _operators(node, text)
            if isinstance(node, ast.Call):
                yield from _calls(node, text)
            if isinstance(node, ast.Subscript):
                yield from _windows(node, text)


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement itself, not of the statements in it, in the order of the source."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(child, ast.stmt):
                found.append(child)
                waiting.append(child)
    yield from sorted(
        (n for n in found if isinstance(n, ast.expr)),
        key=lambda n: (n.lineno, n.col_offset, n.end_lineno or 0, n.end_col_offset or 0),
    )


def _constants(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield "flag", node, repr(not node.value)
    elif isinstance(node.value, int):
        yield "one more", node, str(node.value + 1)
        yield "one less", node, f"({node.value - 1})" if node.value < 1 else str(node.value - 1)
    elif isinstance(node.value, float):
        yield "constant", node, repr(node.value * 2 if node.value else 1.0)
        yield "constant", node, "0.0"


def _operators(node: ast.AST, text: Text) -> Iterator[tuple[str, ast.AST, str]]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("nl", "bl"):
        for kind in SAME_KIND:
            if node.attr in kind:
                for other in kind:
                    yield "operator", node, f"{node.value.id}.{other}"
    elif isinstance(node, ast.Compare):
        new = COMPARISONS.get(type(node.ops[0]))
        if new:
            yield "comparison", node, f"{text(node.left)} {new} {text(node.comparators[0])}"
    elif isinstance(node, ast.BinOp):
        new = ARITHMETIC.get(type(node.op))
        if new:
            yield "arithmetic", node, f"({text(node.left)}) {new} ({text(node.right)})"
        yield "left only", node, text(node.left)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", node, text(node.operand)


def _calls(node: ast.Call, text: Text) -> Iterator[tuple[str, ast.AST, str]]:
    called = text(node.func)
    if called.endswith("range"):
        last = 1 if len(node.args) > 1 else 0
        step = text(node.args[2]) if len(node.args) > 2 else "1"
        yield "last round", node.args[last], f"{text(node.args[last])} - {step}"
        if last:
            yield "first round", node.args[0], f"{text(node.args[0])} + {step}"
        return
    for keyword in node.keywords:
        if keyword.arg in DROPPED:
            rest = [text(a) for a in node.args]
            gone = (keyword.arg, "operand1" if keyword.arg == "op1" else "")
            rest += [f"{k.arg}={text(k.value)}" for k in node.keywords if k.arg not in gone]
            yield "argument", node, f"{called}({', '.join(rest)})"
    tiles = [a for a in node.args if isinstance(a, ast.Name | ast.Subscript | ast.Call)]
    for one, other in itertools.pairwise(tiles[1:]):
        parts = {one: text(other), other: text(one)}
        swapped = [parts.get(a, text(a)) for a in node.args] + [f"{k.arg}={text(k.value)}" for k in node.keywords]
        yield "swapped", node, f"{called}({', '.join(swapped)})"
    if called.startswith(("nisa.", "nl.")):
        for one, other in itertools.pairwise(tiles):
            yield "operand", other, text(one)


def _windows(node: ast.Subscript, text: Text) -> Iterator[tuple[str, ast.AST, str]]:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    for part in parts:
        if isinstance(part, ast.Slice) and part.lower and part.upper and not part.step:
            lower, upper = text(part.lower), text(part.upper)
            yield "window", part, f"{lower} - 1 : {upper} - 1"
            yield "window", part, f"{lower} + 1 : {upper} + 1"
            yield "window", part, f"0 : ({upper}) - ({lower})"
