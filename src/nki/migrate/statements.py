"""Statements of a Beta 1 kernel, rewritten one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

import libcst as cst

from nki.language.advice.beta1.results import LIKE, RESULTS
from nki.migrate.branches import Branches, State, assigned, is_empty
from nki.migrate.facts import Tensor, shape_text
from nki.migrate.indices import Grid, Index, Mask, as_slice, bounds_of, chosen, index_of_slice
from nki.migrate.instructions import COMPARISONS, pattern_of
from nki.migrate.operands import groups_in
from nki.migrate.polynomial import Polynomial
from nki.migrate.report import marked
from nki.migrate.subscripts import NotCarriedOverError, TooManyAxesError
from nki.migrate.syntax.code import code_of, expression, one_line, statement
from nki.migrate.syntax.layout import comments_in
from nki.migrate.syntax.names import Names, imports_nki, names_in
from nki.migrate.types import BINARY, CREATION, ELEMENTWISE, arguments
from nki.migrate.writes import called, guarded, line_of, mask_of, plain


class Statements(Branches):
    """Rewrites the body of one function; ``types`` is what its names hold."""

    # -- blocks --------------------------------------------------------------------------------------------------

    def block(self, body: Iterable[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """The statements of a block; comments of statements that go stay with the next one."""
        result: list[cst.BaseStatement] = []
        kept: list[cst.EmptyLine] = []
        for one in body:
            lines: Sequence[cst.EmptyLine] = getattr(one, "leading_lines", ())
            new = self._statement(one)
            if not new:
                kept += [line for line in lines if line.comment is not None]
                continue
            first: Any = new[0]
            if hasattr(first, "leading_lines"):
                marks = [line for line in first.leading_lines if line.comment and line not in lines]
                new[0] = first.with_changes(leading_lines=[*kept, *lines, *marks])
                kept = []
            result += new
        return result

    def _statement(self, one: cst.BaseStatement) -> list[cst.BaseStatement]:
        try:
            match one:
                case cst.SimpleStatementLine() if id(one) in self.moved:
                    return []
                case cst.SimpleStatementLine():
                    return self._line(one)
                case cst.FunctionDef():
                    return [self.functions(one, self.types)]
                case cst.With():
                    return self._with(one)
                case cst.For() if self.names.full(called(one.iter)) in _ROUNDS:
                    return self._rounds(one)
                case cst.If():
                    new = self._compound(one)
                    return [] if is_empty(new) and not is_empty(one) else [new]
                case _:
                    return [self._compound(one)]
        except NotCarriedOverError as why:
            return [marked(one, self._noted(one, str(why)))]
        except (
            LookupError,
            AttributeError,
            TypeError,
            ValueError,
            cst.ParserSyntaxError,
        ) as why:  # a form of call that no rule expects
            return [marked(one, self._noted(one, f"this statement: {type(why).__name__} {why}"))]

    def _noted(self, one: cst.CSTNode, message: str) -> str:
        self.report.todo(message)
        for target in _targets(one):
            self.types.values.pop(target, None)
        return message

    def _compound(self, one: Any) -> cst.BaseStatement:
        changes: dict[str, Any] = {}
        before: list[cst.BaseStatement] = []
        for name in ("test", "iter"):
            if hasattr(one, name):
                changes[name] = self._expression(getattr(one, name), before)
            if hasattr(one, name) and names_in(getattr(one, name)) & self.types.choices.keys():
                raise NotCarriedOverError(f"`{one_line(getattr(one, name))}` depends on a branch")
        if before:
            raise NotCarriedOverError("instructions in the head of a loop or branch")
        if isinstance(one, cst.If):
            return self._branched(one, changes)
        start = State.of(self.types)
        if isinstance(one, cst.For):
            for target in names_in(one.target):
                self._forget(target)
        if isinstance(getattr(one, "body", None), cst.IndentedBlock):
            body = self.block(cast("Sequence[cst.BaseStatement]", one.body.body))
            changes["body"] = one.body.with_changes(body=body or [statement("pass")])
        elif isinstance(getattr(one, "body", None), cst.SimpleStatementSuite):
            lines = self.block([cst.SimpleStatementLine([cast(Any, small)]) for small in one.body.body])
            changes["body"] = cst.IndentedBlock(lines or [statement("pass")])
        if isinstance(one, cst.For | cst.While):
            self.check_rounds(one, start)
        if isinstance(getattr(one, "orelse", None), cst.Else):
            changes["orelse"] = self._compound(one.orelse)
        return one.with_changes(**changes)

    def _branched(self, one: cst.If, changes: dict[str, Any]) -> cst.BaseStatement:
        """A branch: behind it a name is what either side made it."""
        start = State.of(self.types)
        changes["body"] = cast("cst.Else", self._compound(cst.Else(one.body))).body
        yes = State.of(self.types)
        start.back(self.types)
        if one.orelse is not None:
            changes["orelse"] = self._compound(one.orelse)
        no = State.of(self.types)
        self.merge(one_line(changes["test"]), start, yes, no, (assigned(one.body), assigned(one.orelse)))
        return one.with_changes(**changes)

    def _rounds(self, one: cst.For) -> list[cst.BaseStatement]:
        """A loop that Beta 1 traced once: numbers that its body computes from themselves begin each round anew."""
        changed = _Continued(self.names)
        one.body.visit(changed)
        numbers = sorted(
            name for name, nodes in changed.found.items() if name not in self.types.values
            and any(self.types.facts.others.get(id(node)) == "number" for node in nodes)
        )  # fmt: skip
        fresh = {name: self._rewriter().fresh(f"{name}_before") for name in numbers if name not in self.restarted}
        self.restarted |= fresh
        loop = cast(cst.For, self._compound(one))
        here = [name for name in numbers if name in changed.own or name in _outside(one, name, self.names)]
        again = [statement(f"{name} = {self.restarted[name]}") for name in here]
        if again:
            block = cast(cst.IndentedBlock, loop.body)
            loop = loop.with_changes(body=block.with_changes(body=[*again, *block.body]))
        self.restarted = {name: kept for name, kept in self.restarted.items() if name not in fresh}
        return [*(statement(f"{kept} = {name}") for name, kept in fresh.items()), loop]

    def _with(self, one: cst.With) -> list[cst.BaseStatement]:
        full = self.names.full(called(one.items[0].item))
        if full == "nki.compiler.no_reorder":
            item = one.items[0].with_changes(item=expression("nl.no_reorder()"))
            return [self._compound(one.with_changes(items=[item]))]
        if full.startswith("nki.compiler.") and isinstance(one.body, cst.IndentedBlock):
            return self.block(one.body.body)
        return [self._compound(one)]

    # -- lines ---------------------------------------------------------------------------------------------------

    def _line(self, line: cst.SimpleStatementLine) -> list[cst.BaseStatement]:
        """The statements for a line of them between semicolons; the line itself where they stay as they are."""
        result: list[cst.BaseStatement] = []
        for small in line.body:
            small = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) if len(line.body) > 1 else small
            made = self.chosen(small, self._joined)
            if made is None:
                made = [line.with_changes(body=[small], leading_lines=[])]
            result += made
        if len(line.body) > 1 and [_text(new) for new in result] == [_text(old) for old in line.body]:
            return [line.with_changes(leading_lines=[])]
        if result and isinstance(result[-1], cst.SimpleStatementLine):
            result[-1] = result[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
        kept = comments_in(result)
        lost = [cst.EmptyLine(comment=cst.Comment(text)) for text in comments_in(line.body) if text not in kept]
        if result and lost:
            first: Any = result[0]
            result[0] = first.with_changes(leading_lines=[*first.leading_lines, *lost])
        return result

    def _joined(self, small: cst.BaseSmallStatement) -> list[cst.BaseStatement] | None:
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

    def _by_axes(self, small: cst.BaseSmallStatement) -> list[cst.BaseStatement] | None:
        """One statement; below loops over some axes if its indices are no views of today otherwise."""
        try:
            return self._small(small)
        except TooManyAxesError as why:
            named = isinstance(small, cst.Assign) and not isinstance(small.targets[0].target, cst.Subscript)
            if named or not why.axes:
                raise
            name = self._rewriter().fresh("part")
            axis = why.axes[0]
            before = self.types.fixed
            try:
                self.types.fixed = (*before, (axis, Polynomial.of(name)))
                self.types.forget()
                lines = self._by_axes(small)
            finally:
                self.types.fixed = before
                self.types.forget()
            head = cast("cst.For", statement(f"for {name} in range({axis.size.text}):\n    pass"))
            return [head.with_changes(body=cst.IndentedBlock(lines or []))]

    def _small(self, small: cst.BaseSmallStatement) -> list[cst.BaseStatement] | None:
        match small:
            case cst.Import() | cst.ImportFrom() if self.types.on_device or imports_nki(small):
                self.imports.append(small)
                return []
            case cst.Import() | cst.ImportFrom():
                return None
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                return self._assign(target, value, small)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                return self._annotated(target, value, small)
            case cst.AugAssign(target=target, operator=operator, value=value):
                return self._update(target, operator, value, small)
            case cst.Expr(value=cst.Call() as call):
                several = self._several(call) if self.names.full(call.func) == "nki.language.store" else None
                return self._call(call, small) if several is None else self._stored(call, several)
            case cst.Return(value=cst.BaseExpression() as value) | cst.Expr(value=value):
                before: list[cst.BaseStatement] = []
                index = self.types.value(value) if isinstance(small, cst.Return) else None
                text = as_slice(index) if isinstance(index, Index) else None
                new = expression(text) if text is not None else self._expression(value, before)
                return [*before, line_of(small.with_changes(value=new))]
            case cst.Assert():
                return [line_of(small.with_changes(test=self._expression(small.test, [])))]
            case cst.Assign(value=value):
                before = []
                new = self._expression(value, before)
                return [*before, line_of(small.with_changes(value=new))]
            case _:
                return None

    # -- assignments ---------------------------------------------------------------------------------------------

    def _assign(
        self, target: cst.BaseExpression, value: cst.BaseExpression, small: cst.BaseSmallStatement
    ) -> list[cst.BaseStatement]:
        if self._indices(target, value) or self._allocator(target, value):
            return []
        if isinstance(value, cst.IfExp) and isinstance(target, cst.Name) and (slices := self._choice(target, value)):
            return slices
        if isinstance(value, cst.Call) and self.names.full(value.func) == "nki.language.loop_reduce":
            return self._loop_reduced(target, value)
        if isinstance(target, cst.Name):
            tensor = self.types.tensor(value)
            new = self._named(target.value, value, small)
            self._forget(target.value)
            free = bool(names_in(value) & self.types.loose) and self.types.facts.others.get(id(target)) == "number"
            (self.types.loose.add if free else self.types.loose.discard)(target.value)
            slice_ = index_of_slice(target.value, self.types.facts.others.get(id(value), ""))
            if isinstance(value, cst.Call) and slice_ is not None:  # a function of the file returns an index
                self.types.values[target.value] = slice_
            if tensor is not None:
                seen = self.types.facts.seen(target)
                shape = tensor.shape
                if shape is None and seen is not None:
                    shape = tuple(Polynomial.of(n) for n in seen.shape)
                self.types.tensors[target.value] = Tensor(shape, tensor.dtype, tensor.buffer, tensor.blocks)
            return new
        if isinstance(target, cst.Tuple | cst.List):
            self._unpacked(target, value)
        if isinstance(target, cst.Subscript) and self._is_tile(target):
            several = self._several(value)
            if several is not None and isinstance(value, cst.Call):
                return self._predicated(target, value, several)
            return self._written(target, value)
        before: list[cst.BaseStatement] = []
        new_value = self._expression(value, before)
        return [*before, line_of(cast(Any, small).with_changes(value=new_value))]

    def _annotated(
        self, target: cst.BaseExpression, value: cst.BaseExpression, small: cst.AnnAssign
    ) -> list[cst.BaseStatement]:
        """``x: nt.tensor[rows, columns] = …``: the annotation is the shape."""
        annotation = small.annotation.annotation
        if isinstance(annotation, cst.Subscript) and self.names.full(annotation.value).endswith(".tensor"):
            sizes = [e.slice.value for e in annotation.slice if isinstance(e.slice, cst.Index)]
            if len(sizes) == len(annotation.slice):
                self.types.declare(value, tuple(self.types.evaluator.polynomial(size) for size in sizes))
        return self._assign(target, value, small)

    def _choice(self, target: cst.Name, value: cst.IfExp) -> list[cst.BaseStatement]:
        """``name = index if test else other`` as a choice of two slices; nothing for other values."""
        yes, no = self.types.value(value.body), self.types.value(value.orelse)
        if not isinstance(yes, Index) or not isinstance(no, Index):
            return []
        before: list[cst.BaseStatement] = []
        test = one_line(self._expression(value.test, before))
        found = chosen(target.value, test, yes, no)
        if found is None:
            raise NotCarriedOverError(f"`{one_line(value)}` is one of two indices that are no slices of equal size")
        self._forget(target.value)
        self.types.values[target.value] = found[1]
        return [*before, statement(f"{target.value} = {found[0]}")]

    def _indices(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """Notes the indices and masks that names stand for; False if the value is neither."""
        if isinstance(target, cst.Tuple | cst.List):
            names = [element.value.value for element in target.elements if isinstance(element.value, cst.Name)]
            if len(names) != len(target.elements):
                return False
            if isinstance(value, cst.Tuple) and len(value.elements) == len(names):
                values = [self.types.value(element.value) for element in value.elements]
            else:
                grid = self.types.value(value)
                values = list(grid.indices) if isinstance(grid, Grid) and len(grid.indices) == len(names) else []
            if not values or any(one is None for one in values):
                return False
            for name, one in zip(names, values, strict=True):
                self._forget(name)
                self.types.values[name] = cast(Any, one)
            return True
        found = self.types.value(value) if isinstance(target, cst.Name) else None
        if found is None:
            return False
        self._forget(cast(cst.Name, target).value)
        self.types.values[cast(cst.Name, target).value] = found
        return True

    def _allocator(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """True for a name of one of Beta 1's allocators, which rewritten code does not use."""
        full = self.names.full(called(value))
        if full == "nki.trace" and isinstance(value, cst.Attribute | cst.Name) and isinstance(target, cst.Name):
            self.names.bound[target.value] = full
            return True
        if not full.startswith("nki.compiler.") or not isinstance(target, cst.Name):
            return False
        memory = next((name for name in ("psum", "sbuf") if name in full), "")
        if isinstance(value, cst.Call):
            self.types.allocators[target.value] = value
        self.names.bound[target.value] = f"nki.compiler.{memory}" if isinstance(value, cst.Call) else full
        return True

    def _unpacked(self, target: cst.Tuple | cst.List, value: cst.BaseExpression) -> None:
        """``rows, columns = x.shape`` names the sizes of x."""
        names = [element.value.value for element in target.elements if isinstance(element.value, cst.Name)]
        for name in names:
            self._forget(name)
        match value:
            case cst.Attribute(value=cst.Name(value=owner), attr=cst.Name(value="shape")) if len(names) == len(
                target.elements
            ):
                known = self.types.tensors.get(owner) or Tensor(buffer="hbm", dtype=f"{owner}.dtype")
                if known.shape is None or all(size.text.startswith((f"{owner}.", "1")) for size in known.shape):
                    sizes = (f"{owner}.shape[{k}]" if name == "_" else name for k, name in enumerate(names))
                    shape = tuple(map(Polynomial.of, sizes))
                    self.types.tensors[owner] = Tensor(shape, known.dtype, known.buffer, known.blocks)
                    self.types.forget()
            case _:
                pass

    def _named(self, name: str, value: cst.BaseExpression, small: cst.BaseSmallStatement) -> list[cst.BaseStatement]:
        """``name = value``."""
        if isinstance(value, cst.Call):
            full = self.names.full(value.func)
            package, _, function = full.rpartition(".")
            if self._several(value) is not None and function in {"load", *ELEMENTWISE, *BINARY, *LIKE}:
                self.types.unmasked.add(id(value))  # nothing may depend on what a new tile holds outside of its mask
            if package == "nki.isa" and function in RESULTS:
                return self._result(name, function, value)
            if package == "nki.language" and function in CREATION:
                return self._created(name, function, value)
            mask = mask_of(value) if id(value) not in self.types.unmasked else None
            if package == "nki.language" and mask is not None and one_line(mask) != "None":
                return self._masked(name, function, value, mask)
        before: list[cst.BaseStatement] = []
        new = self._expression(value, before)
        return [*before, line_of(cast(Any, small).with_changes(value=new))]

    def _predicated(self, target: cst.Subscript, call: cst.Call, mask: Mask) -> list[cst.BaseStatement]:
        """``t[…] = f(…, mask=…)`` of a mask that is no rectangle: the result goes where a tile of truth values is 1."""
        place = self.types.tensor(target)
        owner = self.types.tensor(target.value)
        if place is None or place.shape is None or owner is None or owner.buffer == "hbm":
            raise NotCarriedOverError(f"the mask `{mask.parts[0].text}` is no rectangle: use nisa.affine_select")
        self.types.unmasked.add(id(call))
        rewriter = self._rewriter()
        name, inside = rewriter.fresh("masked_result"), rewriter.fresh("inside")
        result = self._named(name, call, cst.Assign([cst.AssignTarget(cst.Name(name))], call))
        before: list[cst.BaseStatement] = []
        to = plain(one_line(self._expression(target, before)))
        lines = self._truth(inside, mask, place)
        copy = statement(f"nisa.tensor_copy_predicated(dst={to}, src={name}, predicate={inside})")
        return [*before, *result, *lines, guarded(copy, bounds_of(mask))]

    def _truth(self, name: str, mask: Mask, place: Tensor) -> list[cst.BaseStatement]:
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
        return [statement(line) for line in lines]

    def _stored(self, call: cst.Call, mask: Mask) -> list[cst.BaseStatement]:
        """``nl.store(…)`` below a mask that is no rectangle: the rest of what is there is stored again."""
        named = arguments(call, ("dst", "value"))
        place, tile = self.types.tensor(named["dst"].value), self.types.tensor(named["value"].value)
        if place is None or place.shape is None or tile is None:
            raise NotCarriedOverError(f"the mask `{mask.parts[0].text}` is no rectangle: use nisa.affine_select")
        before: list[cst.BaseStatement] = []
        to = one_line(self._expression(named["dst"].value, before))
        value = one_line(self._expression(named["value"].value, before))
        rewriter = self._rewriter()
        kept, inside = rewriter.fresh("stored"), rewriter.fresh("inside")
        copy = statement(f"nisa.tensor_copy_predicated(dst={kept}, src={value}, predicate={inside})")
        return [
            *before, statement(f"{kept} = nl.load({to})"), *self._truth(inside, mask, place),
            guarded(copy, bounds_of(mask)), statement(f"nl.store({to}, {kept})"),
        ]  # fmt: skip

    # -- writes into tensors -------------------------------------------------------------------------------------


_UNEXPECTED: Final = (LookupError, AttributeError, TypeError, ValueError, cst.ParserSyntaxError)
"""Errors that rules raise for forms of calls that they do not expect."""
_ROUNDS: Final = ("nki.language.affine_range", "nki.language.sequential_range")


class _Continued(cst.CSTVisitor):
    """Finds the variables that a body computes from their own values; ``own`` are those outside of inner loops."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names
        self.depth = 0
        self.found: dict[str, list[cst.Name]] = {}
        self.own: set[str] = set()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: ARG002
        return False

    def visit_For(self, node: cst.For) -> None:
        self.depth += self.names.full(called(node.iter)) in _ROUNDS

    def leave_For(self, original_node: cst.For) -> None:
        self.depth -= self.names.full(called(original_node.iter)) in _ROUNDS

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        if isinstance(node.target, cst.Name):
            self._note(node.target)

    def visit_Assign(self, node: cst.Assign) -> None:
        target = node.targets[0].target
        if len(node.targets) == 1 and isinstance(target, cst.Name) and target.value in names_in(node.value):
            self._note(target)

    def _note(self, target: cst.Name) -> None:
        self.found.setdefault(target.value, []).append(target)
        if not self.depth:
            self.own.add(target.value)


def _outside(loop: cst.For, name: str, names: Names) -> set[str]:
    """``{name}`` if the body of ``loop`` uses it outside of the inner loops that compute it."""
    for line in cast("Sequence[cst.BaseStatement]", loop.body.body):
        if name in names_in(line) and not (isinstance(line, cst.For) and names.full(called(line.iter)) in _ROUNDS):
            return {name}
    return set()


def _targets(one: cst.CSTNode) -> set[str]:
    found: set[str] = set()
    if isinstance(one, cst.SimpleStatementLine):
        for small in one.body:
            if isinstance(small, cst.Assign):
                for target in small.targets:
                    if isinstance(target.target, cst.Name):
                        found.add(target.target.value)
    return found


def _text(node: cst.BaseStatement | cst.BaseSmallStatement) -> str:
    """The source of a statement without what stands around it."""
    return code_of(node).strip().rstrip("; ")


__all__ = ["Statements"]
