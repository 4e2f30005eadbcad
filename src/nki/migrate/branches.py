"""Names that stand for one index or mask in one branch and for another in the other, and names that loops change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import libcst as cst

from nki.migrate.facts import Tensor
from nki.migrate.indices import Value
from nki.migrate.subscripts import NotCarriedOverError
from nki.migrate.syntax.code import code_of, statement
from nki.migrate.syntax.names import names_in
from nki.migrate.types import Alternatives, Types
from nki.migrate.writes import Writes


@dataclass(frozen=True, slots=True)
class State:
    """The meaning of names at one point of a function."""

    values: dict[str, Value]
    tensors: dict[str, Tensor]
    choices: dict[str, Alternatives]
    loose: set[str]

    @classmethod
    def of(cls, types: Types) -> State:
        return cls(dict(types.values), dict(types.tensors), dict(types.choices), set(types.loose))

    def back(self, types: Types) -> None:
        """Make this the present state."""
        types.values, types.tensors = dict(self.values), dict(self.tensors)
        types.choices, types.loose = dict(self.choices), set(self.loose)
        types.forget()

    def alternatives(self, name: str) -> Alternatives | None:
        """The meanings of a name; None if it is no index here."""
        if name in self.choices:
            return self.choices[name]
        return (("", self.values[name]),) if name in self.values else None


class Branches(Writes):
    """Rewrites statements whose names depend on the branch that was taken."""

    def merge(self, test: str, before: State, yes: State, no: State, bound: tuple[set[str], set[str]]) -> None:
        """The state behind ``if test: … else: …``; ``bound`` are the names that each branch assigns."""
        no.back(self.types)
        for name in {**yes.values, **yes.choices, **no.values, **no.choices}:
            first, second = yes.alternatives(name), no.alternatives(name)
            if first == second:
                continue
            self.types.values.pop(name, None)
            self.types.choices.pop(name, None)
            if first is None or second is None:
                # bound in one branch alone: what uses the name comes from there, unless it was something else before
                only, other = (second, bound[0]) if first is None else (first, bound[1])
                known = name in other or name in before.values or name in before.choices or name in before.tensors
                self._choose(name, () if known or only is None else only)
            else:
                self._choose(name, ((test, first[0][1]), *second) if len(first) == 1 and second else ())
        for name, tensor in yes.tensors.items():
            self.types.tensors[name] = _either(tensor, no.tensors.get(name))
        self.types.loose = yes.loose | no.loose
        self.types.forget()

    def _choose(self, name: str, found: Alternatives) -> None:
        if len(found) == 1:
            self.types.values[name] = found[0][1]
        else:
            self.types.choices[name] = found

    def forget_tests(self, name: str) -> None:
        """A name gets another value: what depends on its old one is no longer known."""
        self.types.choices.pop(name, None)
        for key, found in self.types.choices.items():
            if any(name in re.findall(r"\w+", test) for test, _ in found):
                self.types.choices[key] = ()

    def chosen(
        self, small: cst.BaseSmallStatement, rewrite: Callable[[cst.BaseSmallStatement], list[cst.BaseStatement] | None]
    ) -> list[cst.BaseStatement] | None:
        """One statement, in a branch for each meaning of its names."""
        used = sorted(_read(small) & self.types.choices.keys())
        if not used:
            return rewrite(small)
        kinds = {tuple(test for test, _ in self.types.choices[name]) for name in used}
        if len(kinds) > 1 or () in kinds:
            raise NotCarriedOverError(f"`{used[0]}` is one index or another: which one depends on a branch")
        start = State.of(self.types)
        [tests] = kinds
        branches: list[list[cst.BaseStatement]] = []
        ends: list[State] = []
        for position, _ in enumerate(tests):
            start.back(self.types)
            for name in used:
                self.types.values[name] = self.types.choices.pop(name)[position][1]
            made = rewrite(small)
            branches.append(made if made is not None else [cst.SimpleStatementLine([small])])
            ends.append(State.of(self.types))
        for name in used:
            ends[-1].values.pop(name, None)
        ends[-1].back(self.types)
        for name in used:
            if name not in _targets(small):
                self.types.choices[name] = start.choices[name]
        for name in _targets(small):
            values = [end.values.get(name) for end in ends]
            if any(value != values[0] for value in values):
                self.types.values.pop(name, None)
                whole = all(value is not None for value in values)
                self.types.choices[name] = tuple(zip(tests, cast("list[Value]", values), strict=True)) if whole else ()
        return _conditional(tests, branches)

    def check_rounds(self, loop: cst.For | cst.While, before: State) -> None:
        """Raise :class:`NotCarriedOverError` if a round of a loop begins with an index that the last one changed."""
        body = cast("Sequence[cst.BaseStatement]", loop.body.body)
        after = State.of(self.types)
        for name in {**before.values, **before.choices}:
            if before.alternatives(name) != after.alternatives(name) and first_use(name, body) == "read":
                raise NotCarriedOverError(f"the index `{name}` changes from round to round")


def _either(one: Tensor, other: Tensor | None) -> Tensor:
    """The facts that two tensors share, one of which it is."""
    if other is None or one == other:
        return one
    shape = one.shape if one.shape == other.shape else None
    blocks = one.blocks if one.blocks == other.blocks else other.blocks
    return Tensor(shape, one.dtype if one.dtype == other.dtype else "", other.buffer, blocks)


def _conditional(tests: Sequence[str], branches: Sequence[list[cst.BaseStatement]]) -> list[cst.BaseStatement]:
    texts = ["\n".join(code_of(line) for line in lines) for lines in branches]
    if all(text == texts[0] for text in texts):
        return list(branches[0])
    last: Any = cst.Else(cst.IndentedBlock(branches[-1] or [statement("pass")]))
    for test, lines in reversed(list(zip(tests[:-1], branches[:-1], strict=True))):
        head = cast("cst.If", statement(f"if {test}:\n    pass"))
        last = head.with_changes(body=cst.IndentedBlock(lines or [statement("pass")]), orelse=last)
    return [last]


def _targets(node: cst.CSTNode) -> set[str]:
    """The plain names that a statement assigns."""
    match node:
        case cst.Assign(targets=targets):
            return {one.target.value for one in targets if isinstance(one.target, cst.Name)}
        case _:
            return set()


def _read(small: cst.BaseSmallStatement) -> set[str]:
    """The names that a statement reads."""
    if isinstance(small, cst.Assign) and all(isinstance(one.target, cst.Name) for one in small.targets):
        return names_in(small.value)
    return names_in(small)


def assigned(block: cst.CSTNode | None) -> set[str]:
    """The names that a block assigns, at any depth."""
    found = _Assigned()
    if block is not None:
        block.visit(found)
    return found.names


class _Assigned(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        if isinstance(node.target, cst.Name | cst.Tuple | cst.List):
            self.names |= names_in(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        if isinstance(node.target, cst.Name):
            self.names.add(node.target.value)


def is_empty(node: cst.CSTNode) -> bool:
    """True for a branch that does nothing, and whose test calls nothing."""
    match node:
        case cst.If(test=test, body=body, orelse=orelse):
            calls = "(" in code_of(test)
            return not calls and _does_nothing(body) and (orelse is None or is_empty(orelse))
        case cst.Else(body=body):
            return _does_nothing(body)
        case _:
            return False


def _does_nothing(body: cst.BaseSuite) -> bool:
    lines: Sequence[cst.BaseStatement] = body.body if isinstance(body, cst.IndentedBlock) else ()
    return len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine) and isinstance(lines[0].body[0], cst.Pass)


def first_use(name: str, lines: Sequence[cst.BaseStatement]) -> str:
    """The first thing that a block does with a name: "read", "bound", or "" for neither."""
    for line in lines:
        found = _first(name, line)
        if found:
            return found
    return ""


def _first(name: str, line: Any) -> str:
    if name not in names_in(line):
        return ""
    if isinstance(line, cst.SimpleStatementLine):
        for small in line.body:
            match small:
                case cst.Assign(targets=targets, value=value) if name not in names_in(value) and name in {
                    n for one in targets if isinstance(one.target, cst.Name | cst.Tuple | cst.List)
                    for n in names_in(one.target)
                }:  # fmt: skip
                    return "bound"
                case _ if name in names_in(small):
                    return "read"
                case _:
                    pass
        return ""
    heads = [getattr(line, key) for key in ("test", "iter") if hasattr(line, key)]
    if any(name in names_in(head) for head in heads) or not hasattr(line, "body"):
        return "read"
    if isinstance(line, cst.For) and name in names_in(line.target):
        return "bound"
    found = first_use(name, line.body.body) if isinstance(line.body, cst.IndentedBlock) else "read"
    if isinstance(line, cst.If):
        other = _first(name, line.orelse) if line.orelse is not None else ""
        return "read" if "read" in (found, other) else found if found == other else ""
    return found


__all__ = ["Branches", "State", "assigned", "first_use", "is_empty"]
