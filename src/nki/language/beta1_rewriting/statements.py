"""Statements of a Beta 1 kernel, rewritten one after the other."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from nki.frontend.site import keys_of
from nki.language.beta1_functions import BINARY
from nki.language.beta1_rewriting.branches import Branches, State, does_nothing, is_empty, targets
from nki.language.beta1_rewriting.calls import NotCarriedOverError
from nki.language.beta1_rewriting.facts import Tensor, shape_text
from nki.language.beta1_rewriting.indices import Grid, Mask, as_slice, bounds_of, chosen, index_of_slice
from nki.language.beta1_rewriting.instructions import COMPARISONS, pattern_of
from nki.language.beta1_rewriting.operands import groups_in
from nki.language.beta1_rewriting.report import marked
from nki.language.beta1_rewriting.subscripts import TooManyAxesError
from nki.language.beta1_rewriting.tables import CREATION, ELEMENTWISE, LIKE
from nki.language.beta1_rewriting.types import Types, arguments
from nki.language.beta1_rewriting.writes import guarded, mask_of, plain
from nki.source_text.lines import (
    Line,
    align,
    aligned,
    as_it_is,
    comment_behind,
    head,
)
from nki.source_text.names import Names, called, imports_nki
from nki.source_text.polynomial import Polynomial
from nki.source_text.source import (
    Change,
    assigned,
    code_of,
    comments_in,
    in_one_line,
    names_in,
    one_line,
    replaced,
)

UNEXPECTED: Final = (LookupError, AttributeError, TypeError, ValueError, SyntaxError)
"""Errors that rules raise for forms of calls that they do not expect."""
_ROUNDS: Final = ("nki.language.affine_range", "nki.language.sequential_range")


class Statements(Branches):
    """Rewrites the body of one function; ``types`` is what its names hold."""

    functions: Callable[[ast.FunctionDef, Types], list[Line]]
    """The rewriting of functions inside of this one."""

    def statement(self, group: Sequence[ast.stmt]) -> list[Line]:
        lines = self._statement(group)
        for one in group:
            self.report.lines[id(one)] = lines
        return lines

    def _statement(self, group: Sequence[ast.stmt]) -> list[Line]:
        """The lines for a statement, or for several in one line."""
        try:
            match group[0]:
                case one if id(one) in self.moved:
                    return []
                case ast.FunctionDef() as one:
                    return self.functions(one, self.types)
                case ast.With() as one:
                    return self._with(one)
                case ast.For() as one if self.names.full(called(one.iter)) in _ROUNDS:
                    return self._rounds(one)
                case ast.If() as one:
                    new = self.compound(one)
                    return [] if is_empty(new) and not does_nothing(one) else new
                case ast.For() | ast.While() | ast.Try() | ast.ClassDef() as one:
                    return self.compound(one)
                case _:
                    return self._line(group)
        except NotCarriedOverError as why:
            return [self._left(group, str(why))]
        except UNEXPECTED as why:
            return [self._left(group, f"this statement: {type(why).__name__} {why}")]

    def _left(self, group: Sequence[ast.stmt], message: str) -> Line:
        """A statement that stays, below a comment that says why."""
        self.report.todo(message)
        for target in (name for one in group for name in targets(one)):
            self.types.values.pop(target, None)
        return marked(as_it_is(*group), message)

    def compound(self, one: Any) -> list[Line]:
        """A statement with blocks in it."""
        changes: list[Change] = []
        for node in (getattr(one, name) for name in ("test", "iter") if hasattr(one, name)):
            self.begin()
            text = self.code(node)
            self.no_index_left(text)
            if names_in(node) & self.types.choices.keys():
                raise NotCarriedOverError(f"`{one_line(node)}` depends on a branch")
            if self.before:
                raise NotCarriedOverError("instructions in the head of a loop or branch")
            changes += [(node, text)] if text != code_of(node) else []
        line, row = head(one, one.body, changes)
        start = State.of(self.types)
        for target in names_in(one.target) if isinstance(one, ast.For) else ():
            self.forget(target)
        line.body = self.block(one.body, row)
        if isinstance(one, ast.For | ast.While):
            self.check_rounds(one, start)
        yes = State.of(self.types)
        if isinstance(one, ast.If):
            start.back(self.types)
        others = self.branches(one)
        if isinstance(one, ast.If):
            test = in_one_line(changes[0][1]) if changes else one_line(one.test)
            self.merge(test, start, yes, State.of(self.types), (assigned(*one.body), assigned(*one.orelse)))
        return self.joined(one, line, changes, others)

    def _rounds(self, one: ast.For) -> list[Line]:
        """A loop that Beta 1 traced once: numbers that its body computes from themselves begin each round anew."""
        changed = _Continued(self.names)
        for line in one.body:
            changed.visit(line)
        numbers = sorted(
            name for name, nodes in changed.found.items() if name not in self.types.values
            and any(self.types.facts.kind(node) == "number" for node in nodes)
        )  # fmt: skip
        fresh = {name: self.fresh(f"{name}_before") for name in numbers if name not in self.restarted}
        self.restarted |= fresh
        lines = self.compound(one)
        here = [name for name in numbers if name in changed.own or _is_outside(one, name, self.names)]
        lines[0].body = [*(Line(f"{name} = {self.restarted[name]}") for name in here), *(lines[0].body or ())]
        self.restarted = {name: kept for name, kept in self.restarted.items() if name not in fresh}
        return [*(Line(f"{kept} = {name}") for name, kept in fresh.items()), *lines]

    def _with(self, one: ast.With) -> list[Line]:
        item = one.items[0].context_expr
        full = self.names.full(called(item))
        if full == "nki.compiler.no_reorder":
            return self.rewritten(one, [(item, "nl.no_reorder()")])
        if not full.startswith("nki.compiler."):
            return self.rewritten(one, [])
        lines = self.block(one.body, head(one, one.body, [])[1])
        return [replace(line, kept=False, fixed=line.kept) for line in lines]

    # -- lines ---------------------------------------------------------------------------------------------------

    def _line(self, group: Sequence[ast.stmt]) -> list[Line]:
        """The lines for the statements of one line; the line itself where they stay as they are."""
        result: list[Line] = []
        same = True
        for small in group:
            made = self.chosen(small, self._joined)
            code = code_of(small)
            if made is None or (len(made) == 1 and made[0].body is None and made[0].text == code):
                made = [Line(aligned(code, small.col_offset, small), kept=True)]
            else:
                same = False
                align(made, small.col_offset)
            result += made
        if same:
            return [as_it_is(*group)]
        if result:
            last = result[-1]
            if last.body is None:
                last.comment = comment_behind(group[-1])
            texts = "\n".join(line.text for line in result)
            lost = [text for small in group for text in comments_in(code_of(small)) if text not in texts]
            result[0].above = [*result[0].above, *lost]
        return result

    def _joined(self, small: ast.stmt) -> list[Line] | None:
        """One statement; axes that all of its tensors step through without gaps are one."""
        groups = groups_in(self.types, small)
        if not groups:
            return self._by_axes(small)
        try:
            self.types.dense = groups
            self.types.forget()
            return self._by_axes(small)
        finally:
            self.types.dense = ()
            self.types.forget()

    def _by_axes(self, small: ast.stmt) -> list[Line] | None:
        """One statement; below loops over some axes if its indices are no views of today otherwise."""
        try:
            return self._small(small)
        except TooManyAxesError as why:
            named = isinstance(small, ast.Assign) and not isinstance(small.targets[0], ast.Subscript)
            if named or not why.axes:
                raise
            name = self.fresh("part")
            axis = why.axes[0]
            before = self.types.fixed
            try:
                self.types.fixed = (*before, (axis, Polynomial.of(name)))
                self.types.forget()
                lines = self._by_axes(small)
            finally:
                self.types.fixed = before
                self.types.forget()
            return [Line(f"for {name} in range({axis.size.text}):", lines or [])]

    def _small(self, small: ast.stmt) -> list[Line] | None:
        self.begin()
        lines = self._in_new_form(small)
        if lines is None:
            return None
        lines = [*self.before, *lines]
        for line in lines:
            for each in line.body if line.body is not None else [line]:
                self.no_index_left(each.text)
        return lines

    def _in_new_form(self, small: ast.stmt) -> list[Line] | None:
        """A statement without the lines that have to run first; None where it stays as it is."""
        match small:
            case ast.Import() | ast.ImportFrom() if self.types.on_device or imports_nki(small):
                self.imports.append(small)
                return []
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, value, small)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._annotated(target, value, small)
            case ast.AugAssign():
                return self._update(small)
            case ast.Expr(value=ast.Call() as call):
                several = self._several(call) if self.names.full(call.func) == "nki.language.store" else None
                return self._alone(small, call) if several is None else self._stored(call, several)
            case ast.Return(value=ast.Call() as call) if function := self._creation(call):
                return self._created(call, function)
            case ast.Return(value=ast.expr() as value):
                index = self.types.index(value)
                text = as_slice(index) if index is not None else None
                return [Line(replaced(small, [(value, text)]))] if text is not None else self.changed(small, value)
            case ast.Expr(value=value) | ast.Assert(test=value) | ast.Assign(value=value):
                return self.changed(small, value)
            case _:
                return None

    def _creation(self, call: ast.Call) -> str:
        """The function of a call that makes a tensor; "" for other calls."""
        package, _, function = self.names.full(call.func).rpartition(".")
        return function if package == "nki.language" and function in CREATION else ""

    # -- assignments ---------------------------------------------------------------------------------------------

    def _assign(self, target: ast.expr, value: ast.expr, small: ast.stmt) -> list[Line]:
        if self._indices(target, value) or self._allocator(target, value):
            return []
        if isinstance(value, ast.IfExp) and isinstance(target, ast.Name) and (slices := self._choice(target, value)):
            return slices
        if isinstance(value, ast.Call) and self.names.full(value.func) == "nki.language.loop_reduce":
            return self._loop_reduced(target, value)
        if isinstance(target, ast.Name):
            return self._bound(target, value, small)
        if isinstance(target, ast.Tuple | ast.List):
            self._unpacked(target, value)
        if isinstance(target, ast.Subscript) and self._is_tile(target):
            several = self._several(value)
            if several is not None and isinstance(value, ast.Call):
                return self._predicated(target, value, several)
            return self._written(target, value)
        return self.changed(small, value)

    def _bound(self, target: ast.Name, value: ast.expr, small: ast.stmt) -> list[Line]:
        """``name = value``, and what the name then stands for."""
        tensor = self.types.tensor(value)
        new = self._named(target.id, value, small)
        self.forget(target.id)
        free = bool(names_in(value) & self.types.loose) and self.types.facts.kind(target) == "number"
        (self.types.loose.add if free else self.types.loose.discard)(target.id)
        slice_ = index_of_slice(target.id, self.types.facts.kind(value))
        if isinstance(value, ast.Call) and slice_ is not None:  # a function of the file returns an index
            self.types.values[target.id] = slice_
        if tensor is not None:
            seen = self.types.facts.seen(target)
            shape = tensor.shape
            if shape is None and seen is not None:
                shape = tuple(Polynomial.of(n) for n in seen.shape)
            self.types.tensors[target.id] = Tensor(shape, tensor.dtype, tensor.buffer, tensor.blocks)
        return new

    def _annotated(self, target: ast.expr, value: ast.expr, small: ast.AnnAssign) -> list[Line]:
        """``x: nt.tensor[rows, columns] = …``: the annotation is the shape."""
        annotation = small.annotation
        if isinstance(annotation, ast.Subscript) and self.names.full(annotation.value).endswith(".tensor"):
            sizes = keys_of(annotation)
            if not any(isinstance(size, ast.Slice) for size in sizes):
                self.types.declare(value, tuple(map(self.types.evaluator.polynomial, sizes)))
        return self._assign(target, value, small)

    def _choice(self, target: ast.Name, value: ast.IfExp) -> list[Line]:
        """``name = index if test else other`` as a choice of two slices; nothing for other values."""
        yes, no = self.types.index(value.body), self.types.index(value.orelse)
        if yes is None or no is None:
            return []
        test = in_one_line(self.code(value.test))
        found = chosen(target.id, test, yes, no)
        if found is None:
            raise NotCarriedOverError(f"`{one_line(value)}` is one of two indices that are no slices of equal size")
        self.forget(target.id)
        self.types.values[target.id] = found[1]
        return [Line(f"{target.id} = {found[0]}")]

    def _indices(self, target: ast.expr, value: ast.expr) -> bool:
        """Notes the indices and masks that names stand for; False if the value is neither."""
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        if len(names) != len(parts):
            return False
        if isinstance(target, ast.Name):
            values = [self.types.value(value)]
        elif isinstance(value, ast.Tuple):
            values = [self.types.value(each) for each in value.elts]
        else:
            grid = self.types.value(value)
            values = list(grid.indices) if isinstance(grid, Grid) else []
        known = [one for one in values if one is not None]
        if not len(known) == len(values) == len(names):
            return False
        for name, one in zip(names, known, strict=True):
            self.forget(name)
            self.types.values[name] = one
        return True

    def _allocator(self, target: ast.expr, value: ast.expr) -> bool:
        """True for a name of one of Beta 1's allocators, which rewritten code does not use."""
        full = self.names.full(called(value))
        if not isinstance(target, ast.Name):
            return False
        if full == "nki.trace" and isinstance(value, ast.Attribute | ast.Name):
            self.names.bound[target.id] = full
            return True
        if not full.startswith("nki.compiler."):
            return False
        memory = next((name for name in ("psum", "sbuf") if name in full), "")
        if isinstance(value, ast.Call):
            self.types.allocators[target.id] = value
        self.names.bound[target.id] = f"nki.compiler.{memory}" if isinstance(value, ast.Call) else full
        return True

    def _unpacked(self, target: ast.Tuple | ast.List, value: ast.expr) -> None:
        """``rows, columns = x.shape`` names the sizes of x."""
        names = [part.id for part in target.elts if isinstance(part, ast.Name)]
        for name in names:
            self.forget(name)
        match value:
            case ast.Attribute(value=ast.Name(id=owner), attr="shape") if len(names) == len(target.elts):
                known = self.types.tensors.get(owner) or Tensor(buffer="hbm", dtype=f"{owner}.dtype")
                if known.shape is None or all(size.text.startswith((f"{owner}.", "1")) for size in known.shape):
                    sizes = (f"{owner}.shape[{k}]" if name == "_" else name for k, name in enumerate(names))
                    shape = tuple(map(Polynomial.of, sizes))
                    self.types.tensors[owner] = Tensor(shape, known.dtype, known.buffer, known.blocks)
                    self.types.forget()
            case _:
                pass

    def _named(self, name: str, value: ast.expr, small: ast.stmt | None) -> list[Line]:
        """``name = value``; ``small`` is the statement, if it is one of the old code."""
        if isinstance(value, ast.Call):
            package, _, function = self.names.full(value.func).rpartition(".")
            if self._several(value) is not None and function in {"load", *ELEMENTWISE, *BINARY, *LIKE}:
                self.types.unmasked.add(id(value))  # nothing may depend on what a new tile holds outside of its mask
            if self.types.result_of(value):
                return self._result(name, function, value)
            if self._creation(value):
                return self._created(value, function, name, f"{name} =")
            mask = mask_of(value) if id(value) not in self.types.unmasked else None
            if package == "nki.language" and mask is not None:
                return self._masked(name, function, value, mask)
        return self.changed(small, value) if small is not None else [Line(f"{name} = {self.code(value)}")]

    # -- masks that are no rectangles ----------------------------------------------------------------------------

    def _predicated(self, target: ast.Subscript, call: ast.Call, mask: Mask) -> list[Line]:
        """``t[…] = f(…, mask=…)`` of a mask that is no rectangle: the result goes where a tile of truth values is 1."""
        place = self.types.tensor(target)
        owner = self.types.tensor(target.value)
        if place is None or place.shape is None or owner is None or owner.buffer == "hbm":
            raise NotCarriedOverError(f"the mask `{mask.parts[0].text}` is no rectangle: use nisa.affine_select")
        self.types.unmasked.add(id(call))
        name, inside = self.fresh("masked_result"), self.fresh("inside")
        result = self._named(name, call, None)
        to = plain(in_one_line(self.code(target)))
        copy = Line(f"nisa.tensor_copy_predicated(dst={to}, src={name}, predicate={inside})")
        return [*result, *self._truth(inside, mask, place), guarded(copy, bounds_of(mask))]

    def _truth(self, name: str, mask: Mask, place: Tensor) -> list[Line]:
        """A tile of 1 where a mask that is no rectangle lets ``place`` through, and of 0 elsewhere."""
        lines = [
            f"{name} = nl.ndarray({shape_text(place.shape or ())}, dtype=nl.uint8, buffer=nl.sbuf)",
            f"nisa.memset(dst={name}, value=1)",
        ]
        for part in (part for part in mask.parts if part.index.steps):
            pattern, multiplier = pattern_of(part.index, place)
            lines.append(
                f"nisa.affine_select(dst={name}, pattern={pattern}, channel_multiplier={multiplier}, "
                f"on_true_tile={name}, on_false_value=0, cmp_op=nl.{COMPARISONS[part.op]}, "
                f"offset={part.index.base.text})"
            )
        return [Line(line) for line in lines]

    def _stored(self, call: ast.Call, mask: Mask) -> list[Line]:
        """``nl.store(…)`` below a mask that is no rectangle: the rest of what is there is stored again."""
        named = arguments(call, ("dst", "value"))
        place, tile = self.types.tensor(named["dst"]), self.types.tensor(named["value"])
        if place is None or place.shape is None or tile is None:
            raise NotCarriedOverError(f"the mask `{mask.parts[0].text}` is no rectangle: use nisa.affine_select")
        to, value = (in_one_line(self.code(named[key])) for key in ("dst", "value"))
        kept, inside = self.fresh("stored"), self.fresh("inside")
        copy = Line(f"nisa.tensor_copy_predicated(dst={kept}, src={value}, predicate={inside})")
        return [
            Line(f"{kept} = nl.load({to})"), *self._truth(inside, mask, place),
            guarded(copy, bounds_of(mask)), Line(f"nl.store({to}, {kept})"),
        ]  # fmt: skip


class _Continued(ast.NodeVisitor):
    """Finds the variables that a body computes from their own values; ``own`` are those outside of inner loops."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.depth = 0
        self.found: dict[str, list[ast.Name]] = {}
        self.own: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Functions inside have variables of their own."""

    def visit_For(self, node: ast.For) -> None:
        inner = self.names.full(called(node.iter)) in _ROUNDS
        self.depth += inner
        self.generic_visit(node)
        self.depth -= inner

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._note(node.target)

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if len(node.targets) == 1 and isinstance(target, ast.Name) and target.id in names_in(node.value):
            self._note(target)

    def _note(self, target: ast.Name) -> None:
        self.found.setdefault(target.id, []).append(target)
        if not self.depth:
            self.own.add(target.id)


def _is_outside(loop: ast.For, name: str, names: Names) -> bool:
    """True if the body of ``loop`` uses a name outside of the inner loops that compute it."""
    return any(
        name in names_in(line) and not (isinstance(line, ast.For) and names.full(called(line.iter)) in _ROUNDS)
        for line in loop.body
    )


__all__ = ["UNEXPECTED", "Statements"]
