"""Names that stand for one index or mask in one branch and for another in the other, and names that loops change."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from nki.language.beta1_rewriting.calls import NotCarriedOverError
from nki.language.beta1_rewriting.facts import Tensor
from nki.language.beta1_rewriting.indices import Value
from nki.language.beta1_rewriting.types import Alternatives, Types
from nki.language.beta1_rewriting.writes import Writes
from nki.source_text.lines import Line, rendered
from nki.source_text.rewriting import BlockRewriter
from nki.source_text.source import code_of, names_in


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


class Branches(BlockRewriter, Writes):
    """Rewrites statements with names that depend on the branch that was taken."""

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

    def forget(self, name: str) -> None:
        """A name gets another value: what depends on its old one is no longer known."""
        self.types.values.pop(name, None)
        self.types.tensors.pop(name, None)
        self.types.choices.pop(name, None)
        for key, found in self.types.choices.items():
            if any(name in re.findall(r"\w+", test) for test, _ in found):
                self.types.choices[key] = ()
        self.types.forget()

    def chosen(self, small: ast.stmt, rewrite: Callable[[ast.stmt], list[Line] | None]) -> list[Line] | None:
        """One statement, in a branch for each meaning of its names."""
        used = sorted(_read(small) & self.types.choices.keys())
        if not used:
            return rewrite(small)
        kinds = {tuple(test for test, _ in self.types.choices[name]) for name in used}
        if len(kinds) > 1 or () in kinds:
            raise NotCarriedOverError(f"`{used[0]}` is one index or another: which one depends on a branch")
        start = State.of(self.types)
        [tests] = kinds
        branches: list[list[Line]] = []
        ends: list[State] = []
        for position, _ in enumerate(tests):
            start.back(self.types)
            for name in used:
                self.types.values[name] = self.types.choices.pop(name)[position][1]
            made = rewrite(small)
            branches.append(made if made is not None else [Line(code_of(small))])
            ends.append(State.of(self.types))
        for name in used:
            ends[-1].values.pop(name, None)
        ends[-1].back(self.types)
        for name in used:
            if name not in targets(small):
                self.types.choices[name] = start.choices[name]
        for name in targets(small):
            values = [end.values.get(name) for end in ends]
            if any(value != values[0] for value in values):
                self.types.values.pop(name, None)
                whole = all(value is not None for value in values)
                self.types.choices[name] = tuple(zip(tests, cast("list[Value]", values), strict=True)) if whole else ()
        return _conditional(tests, branches)

    def check_rounds(self, loop: ast.For | ast.While, before: State) -> None:
        """Raise :class:`NotCarriedOverError` if a round of a loop begins with an index that the last one changed."""
        after = State.of(self.types)
        for name in {**before.values, **before.choices}:
            if before.alternatives(name) != after.alternatives(name) and first_use(name, loop.body) == "read":
                raise NotCarriedOverError(f"the index `{name}` changes from round to round")


def _either(one: Tensor, other: Tensor | None) -> Tensor:
    """The facts that two tensors share: the tensor is one of them."""
    if other is None or one == other:
        return one
    shape = one.shape if one.shape == other.shape else None
    blocks = one.blocks if one.blocks == other.blocks else other.blocks
    return Tensor(shape, one.dtype if one.dtype == other.dtype else "", other.buffer, blocks)


def _conditional(tests: Sequence[str], branches: Sequence[list[Line]]) -> list[Line]:
    if all(rendered(lines) == rendered(branches[0]) for lines in branches):
        return list(branches[0])
    heads = ["if", *["elif"] * (len(tests) - 2)]
    lines = [Line(f"{word} {test}:", body) for word, test, body in zip(heads, tests[:-1], branches[:-1], strict=True)]
    return [*lines, Line("else:", branches[-1])]


def targets(node: ast.stmt) -> set[str]:
    """The plain names that a statement assigns."""
    return {one.id for one in node.targets if isinstance(one, ast.Name)} if isinstance(node, ast.Assign) else set()


def _read(small: ast.stmt) -> set[str]:
    """The names that a statement reads."""
    if isinstance(small, ast.Assign) and all(isinstance(one, ast.Name) for one in small.targets):
        return names_in(small.value)
    return names_in(small)


def is_empty(lines: Sequence[Line]) -> bool:
    """True for a branch that does nothing, with tests that call nothing."""
    return all(line.body is not None and "(" not in line.text and _does_nothing(line.body) for line in lines)


def does_nothing(node: ast.If) -> bool:
    """True for a branch of the old code that does nothing."""
    bodies = [node.body, node.orelse] if node.orelse else [node.body]
    return all(len(body) == 1 and isinstance(body[0], ast.Pass) for body in bodies)


def _does_nothing(body: Sequence[Line]) -> bool:
    return not body or (len(body) == 1 and body[0].text == "pass")


def first_use(name: str, body: Sequence[ast.stmt]) -> str:
    """The first thing that a block does with a name: "read", "bound", or "" for neither."""
    return next((found for line in body if (found := _first(name, line))), "")


def _first(name: str, line: ast.stmt) -> str:
    if name not in names_in(line):
        return ""
    match line:
        case ast.Assign(targets=each, value=value) if name not in names_in(value) and name in names_in(
            *(one for one in each if isinstance(one, ast.Name | ast.Tuple | ast.List))
        ):
            return "bound"
        case ast.If(test=test, body=body, orelse=orelse) if name not in names_in(test):
            found, other = first_use(name, body), first_use(name, orelse)
            return "read" if "read" in (found, other) else found if found == other else ""
        case ast.For(iter=head, target=target, body=body) if name not in names_in(head):
            return "bound" if name in names_in(target) else first_use(name, body)
        case ast.While(test=head, body=body) if name not in names_in(head):
            return first_use(name, body)
        case ast.With(body=body):
            return first_use(name, body)
        case _:
            return "read"


__all__ = ["Branches", "State", "does_nothing", "first_use", "is_empty", "targets"]
