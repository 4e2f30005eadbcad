"""The text of a kernel's file: its functions, blocks and loops, and what the statements in them read and write."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import nki.isa as nisa
import nki.language as nl
from nki.ir.instruction import REGISTRY
from nki.optimising.edit import Splice
from nki.source_text.names import Names
from nki.source_text.source import Source, code_of, names_in

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)


class Uses(NamedTuple):
    """The names that code reads and binds, and the names of tiles that it ``fills``, wholly or in part; a name that
    stands for a part of a tile counts as the tile.
    """

    reads: frozenset[str]
    binds: frozenset[str]
    fills: frozenset[str]

    @property
    def writes(self) -> frozenset[str]:
        """The names that mean something else behind the code."""
        return self.binds | self.fills


@dataclass(eq=False)
class Block:
    """The statements of a body; ``owner`` is the statement around them, and ``above`` the block of that."""

    statements: list[ast.stmt]
    owner: ast.stmt
    above: Block | None

    def around(self) -> Iterator[Block]:
        """The block, the one around it, and so on."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.above


@dataclass(eq=False)
class Loop:
    """A loop: ``for``, or a function that ``nl.fori_loop`` runs. ``start`` is its first statement in the block around
    it, and ``end`` its last: the definition of the function, and the call of ``nl.fori_loop``.
    """

    start: ast.For | ast.FunctionDef
    end: ast.stmt
    block: Block
    around: Block
    variables: frozenset[str]


@dataclass(frozen=True, eq=False)
class Instruction:
    """A call of ``nki.isa`` that is a statement: its name, and its arguments by parameter."""

    statement: ast.stmt
    call: ast.Call
    name: str
    args: dict[str, ast.expr]

    @property
    def parameters(self) -> set[str]:
        """The parameters of the instruction."""
        return set(inspect.signature(getattr(nisa, self.name)).parameters)

    def text(self, parameter: str) -> str:
        """The code of an argument; "" if the call does not pass it."""
        return code_of(self.args[parameter]) if parameter in self.args else ""

    def base(self, parameter: str) -> str:
        """The name of the tile that an argument is, or is a part of; "" if there is none."""
        return base_of(self.args[parameter]) if parameter in self.args else ""


class KernelText:
    """The text of a file, and the functions in it that make up the kernel ``name``."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.source = Source(text)
        self.names = Names.of(self.source.tree)
        self.nl = self.names.alias("nki.language") or "nl"
        self.nisa = self.names.alias("nki.isa") or "nisa"
        self.blocks: list[Block] = []
        self._block_of: dict[int, Block] = {}
        self._changed: dict[str, frozenset[str]] = {}
        for function in self.functions:
            self._enter(function, function.body, None)

    # -- structure -----------------------------------------------------------------------------------------------------

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        """The kernel's function, and the functions of the file that it names, directly or through others."""
        known = {node.name: node for node in self.source.tree.body if isinstance(node, ast.FunctionDef)}
        found: dict[str, ast.FunctionDef] = {}
        todo = [self.name]
        while todo:
            name = todo.pop()
            if name in known and name not in found:
                found[name] = known[name]
                todo += sorted(names_in(known[name]))
        return list(found.values())

    def _enter(self, owner: ast.stmt, statements: list[ast.stmt], above: Block | None) -> None:
        block = Block(statements, owner, above)
        self.blocks.append(block)
        for each in statements:
            self._block_of[id(each)] = block
            for body in ("body", "orelse", "finalbody"):
                inner: list[ast.stmt] | None = getattr(each, body, None)
                if inner:
                    self._enter(each, inner, block)

    def block_of(self, statement: ast.stmt) -> Block:
        """The block in which a statement stands."""
        return self._block_of[id(statement)]

    @cached_property
    def loops(self) -> list[Loop]:
        """The loops, outer ones first."""
        found: list[Loop] = []
        for block in self.blocks:
            owner = block.owner
            if isinstance(owner, ast.For) and block.statements is owner.body:
                found.append(Loop(owner, owner, block, self.block_of(owner), frozenset(names_in(owner.target))))
            elif isinstance(owner, ast.FunctionDef) and block.above is not None:
                call = self._device_loop(owner, block.above)
                if call is not None:
                    found.append(Loop(owner, call, block, block.above, frozenset(a.arg for a in owner.args.args)))
        return found

    def _device_loop(self, function: ast.FunctionDef, block: Block) -> ast.stmt | None:
        """The call of ``nl.fori_loop`` in ``block`` that runs a function."""
        for each in block.statements:
            match each:
                case ast.Expr(value=ast.Call(func=called, args=[_, _, ast.Name(id=name), *_])) if (
                    name == function.name and self.names.full(called) == "nki.language.fori_loop"
                ):
                    return each
                case _:
                    pass
        return None

    def loops_around(self, block: Block) -> list[Loop]:
        """The loops around the statements of a block, the innermost first."""
        blocks = [id(each) for each in block.around()]
        found = [loop for loop in self.loops if id(loop.block) in blocks]
        return sorted(found, key=lambda loop: blocks.index(id(loop.block)))

    def statements(self) -> Iterator[tuple[Block, ast.stmt]]:
        """All statements, each with its block."""
        for block in self.blocks:
            for each in block.statements:
                yield block, each

    # -- calls ---------------------------------------------------------------------------------------------------------

    def instruction(self, statement: ast.stmt) -> Instruction | None:
        """The instruction that a statement is."""
        match statement:
            case ast.Expr(value=ast.Call() as call):
                full = self.names.full(call.func)
            case _:
                return None
        if not full.startswith("nki.isa.") or any(isinstance(each, ast.Starred) for each in call.args):
            return None
        name = full.removeprefix("nki.isa.")
        args = _bound(getattr(nisa, name, None), call)
        return None if args is None else Instruction(statement, call, name, args)

    @cached_property
    def instructions(self) -> list[Instruction]:
        """All statements that are instructions."""
        return [inst for _, each in self.statements() if (inst := self.instruction(each)) is not None]

    def in_block(self, block: Block) -> list[Instruction]:
        """The instructions that stand in a block itself."""
        return [inst for inst in self.instructions if self.block_of(inst.statement) is block]

    def language_call(self, node: ast.AST | None, *functions: str) -> dict[str, ast.expr] | None:
        """The arguments by parameter if ``node`` calls one of these functions of ``nki.language``."""
        if not isinstance(node, ast.Call):
            return None
        name = self.names.full(node.func).removeprefix("nki.language.")
        return _bound(getattr(nl, name, None), node) if name in functions else None

    def allocation(self, name: str, block: Block) -> ast.Assign | None:
        """The statement that binds ``name``, seen from ``block``: of the nearest block around it, or of any other."""
        for each in (*block.around(), *self.blocks):
            found = [s for s in each.statements if isinstance(s, ast.Assign) and name in bound_by(s)]
            if found:
                return found[-1]
        return None

    # -- reads and writes ----------------------------------------------------------------------------------------------

    @cached_property
    def _roots(self) -> dict[str, frozenset[str]]:
        """Names that stand for parts of tiles, each with the names of the tiles."""
        direct: dict[str, set[str]] = {}
        for _, each in self.statements():
            match each:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    if bases := set(_bases(value)) - {name} - self.names.bound.keys():
                        direct.setdefault(name, set()).update(bases)
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[item])):
                    direct.setdefault(name, set()).update(_bases(item))  # the list stands for what it holds
                case _:
                    pass
        return {name: frozenset(_closure(name, direct)) for name in direct}

    def roots(self, names: Iterable[str]) -> frozenset[str]:
        """``names`` and the tiles that they are parts of."""
        return frozenset(root for name in names for root in (name, *self._roots.get(name, ())))

    def uses(self, *statements: ast.stmt) -> Uses:
        """The names that statements read and write."""
        reads: set[str] = set()
        binds: set[str] = set()
        fills: set[str] = set()
        for statement in statements:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name):
                    (reads if isinstance(node.ctx, ast.Load) else binds).add(node.id)
                elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
                    fills.add(base_of(node))
                elif isinstance(node, ast.Call):
                    fills.update(self._written(node, statement))
        return Uses(self.roots(reads), frozenset(binds), self.roots(fills - {""}))

    def _written(self, call: ast.Call, statement: ast.stmt) -> set[str]:
        """The tiles and lists that a call writes to."""
        full = self.names.full(call.func)
        if full.startswith("nki.isa."):
            name = full.removeprefix("nki.isa.")
            declared = REGISTRY.get(name)
            args = _bound(getattr(nisa, name, None), call)
            if declared is not None and args is not None:
                written = [args[each] for each in declared.write_names if each in args]
                return {base for each in written for base in _bases(each)}
        if full == "nki.language.store" and call.args:
            return {base_of(call.args[0])}
        if isinstance(call.func, ast.Attribute) and not full:
            return {base_of(call.func.value)}  # a method may change its owner
        if full.startswith("nki."):
            return set()
        given = [*zip(self._positional(call), call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
        changed = self._changed_parameters(call)
        if changed is None:  # a function of another file
            is_statement = isinstance(statement, ast.Expr) and statement.value is call
            return {base for _, each in given for base in _bases(each)} if is_statement else set()
        return {base for name, each in given if name in changed for base in _bases(each)}

    def _positional(self, call: ast.Call) -> list[str]:
        """The names of the parameters that the arguments by position are for."""
        function = self._function(call)
        return [""] * len(call.args) if function is None else [each.arg for each in function.args.args]

    def _function(self, call: ast.Call) -> ast.FunctionDef | None:
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        return next((each for each in self.functions if each.name == name), None)

    def _changed_parameters(self, call: ast.Call) -> frozenset[str] | None:
        """The parameters of a function of the file that it writes to; None for other functions."""
        function = self._function(call)
        if function is None:
            return None
        if function.name not in self._changed:
            self._changed[function.name] = frozenset()  # a function that calls itself ends here
            self._changed[function.name] = self.uses(*function.body).writes
        return self._changed[function.name]

    # -- text ----------------------------------------------------------------------------------------------------------

    def rows(self, statement: ast.stmt) -> tuple[int, int]:
        """Start and end in the text of the whole lines of a statement."""
        last = statement.end_lineno or statement.lineno
        return self.source.offset(self._first(statement), 0), self._line_start(last + 1)

    def _first(self, statement: ast.stmt) -> int:
        decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        return min([statement.lineno, *(each.lineno for each in decorators)])

    def _line_start(self, line: int) -> int:
        lines = self.source.lines
        return len(self.text) if line > len(lines) else self.source.offset(line, 0)

    def is_alone(self, statement: ast.stmt) -> bool:
        """Test if a statement has its lines for itself."""
        start, end = self.rows(statement)
        first, last = self.source.span(statement)
        return not self.text[start:first].strip() and not self.text[last:end].split("#")[0].strip()

    def indent(self, statement: ast.stmt) -> str:
        """The white space in front of a statement."""
        return self.source.lines[statement.lineno - 1][: statement.col_offset]

    def before(self, statement: ast.stmt, code: str) -> Splice:
        """The insertion of ``code`` as lines of their own above a statement."""
        start = self.rows(statement)[0]
        return start, start, textwrap.indent(code, self.indent(statement)) + "\n"

    def behind(self, statement: ast.stmt, code: str) -> Splice:
        """The insertion of ``code`` as lines of their own below a statement."""
        end = self.rows(statement)[1]
        start = "" if self.text[end - 1 : end] == "\n" else "\n"
        return end, end, start + textwrap.indent(code, self.indent(statement)) + "\n"

    def without(self, *statements: ast.stmt) -> list[Splice]:
        """The removal of the lines of statements."""
        return [(*self.rows(each), "") for each in statements]

    def code(self, *statements: ast.stmt) -> str:
        """The code of statements, as it is at column 0."""
        parts: list[str] = []
        for each in statements:
            start, end = self.rows(each)
            parts.append(textwrap.dedent(self.text[start:end]).strip("\n"))
        return "\n".join(parts)

    def replacing(self, node: ast.AST, code: str) -> Splice:
        """The replacement of an expression."""
        return (*self.source.span(node), code)

    def with_argument(self, call: ast.Call, name: str, code: str, args: dict[str, ast.expr]) -> Splice:
        """The call with ``code`` for the parameter ``name``: in place of what it passes, or behind its arguments."""
        if name in args:
            return self.replacing(args[name], code)
        nodes = [*call.args, *(each.value for each in call.keywords)]
        if not nodes:
            end = self.source.span(call)[1] - 1
            return end, end, f"{name}={code}"
        end = max(self.source.span(each)[1] for each in nodes)
        return end, end, f", {name}={code}"

    def fresh(self, wanted: str) -> str:
        """``wanted``, or that with a number if the file has the name."""
        taken = names_in(self.source.tree)
        return next(name for name in (wanted, *(f"{wanted}_{k}" for k in range(2, 99))) if name not in taken)


def base_of(node: ast.AST) -> str:
    """The name that an expression of subscripts, attributes and methods begins with; "" for others."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Subscript(value=inner) | ast.Attribute(value=inner):
                node = inner
            case ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case _:
                return ""


def _bases(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Tuple | ast.List):
        return [base for each in node.elts for base in _bases(each)]
    return [base] if (base := base_of(node)) else []


def _closure(name: str, direct: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        for each in direct.get(todo.pop(), ()):
            if each not in found:
                found.add(each)
                todo.append(each)
    return found


def bound_by(statement: ast.Assign) -> set[str]:
    """The names that an assignment binds."""
    return {node.id for target in statement.targets for node in ast.walk(target)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}  # fmt: skip


def _bound(function: Any, call: ast.Call) -> dict[str, ast.expr] | None:
    """The arguments of a call by parameter; None if the function does not take them."""
    if not callable(function) or any(k.arg is None for k in call.keywords):
        return None
    try:
        bound = inspect.signature(function).bind_partial(*call.args, **{str(k.arg): k.value for k in call.keywords})
    except (TypeError, ValueError):
        return None
    return dict(bound.arguments)


def is_at(statement: ast.stmt, lines: frozenset[int]) -> bool:
    """True if a statement stands at one of ``lines``."""
    return bool(lines & {*range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)})


def is_simple(statement: ast.stmt) -> bool:
    """True for an assignment and for a call."""
    return isinstance(statement, _SIMPLE)


__all__ = ["Block", "Instruction", "KernelText", "Loop", "Uses", "base_of", "bound_by", "is_at", "is_simple"]
