"""Statements of a Beta 1 kernel, rewritten one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import libcst as cst

from nki.migrate.code import expression, one_line, statement
from nki.migrate.expressions import RESULTS
from nki.migrate.facts import Tensor
from nki.migrate.indices import Grid, names_in
from nki.migrate.polynomial import Polynomial
from nki.migrate.report import MARK, marked
from nki.migrate.subscripts import NotCarriedOverError
from nki.migrate.types import CREATION
from nki.migrate.writes import Writes, called, line_of, mask_of


class Statements(Writes):
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
                marks = [line for line in first.leading_lines if line.comment and MARK in line.comment.value]
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
                case _:
                    return [self._compound(one)]
        except NotCarriedOverError as why:
            return [marked(one, self._noted(one, str(why)))]
        except (LookupError, AttributeError, TypeError, ValueError) as why:  # a form of call that no rule expects
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
        if before:
            raise NotCarriedOverError("instructions in the head of a loop or branch")
        if isinstance(one, cst.For):
            for target in names_in(one.target):
                self._forget(target)
        if isinstance(getattr(one, "body", None), cst.IndentedBlock):
            body = self.block(cast("Sequence[cst.BaseStatement]", one.body.body))
            changes["body"] = one.body.with_changes(body=body or [statement("pass")])
        elif isinstance(getattr(one, "body", None), cst.SimpleStatementSuite):
            lines = self.block([cst.SimpleStatementLine([cast(Any, small)]) for small in one.body.body])
            changes["body"] = cst.IndentedBlock(lines or [statement("pass")])
        orelse = getattr(one, "orelse", None)
        if isinstance(orelse, cst.If | cst.Else):
            changes["orelse"] = self._compound(orelse)
        return one.with_changes(**changes)

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
        result: list[cst.BaseStatement] = []
        for small in line.body:
            small = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) if len(line.body) > 1 else small
            made = self._small(small)
            if made is None:
                made = [line.with_changes(body=[small], leading_lines=[])]
            result += made
        if result and isinstance(result[-1], cst.SimpleStatementLine):
            result[-1] = result[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
        return result

    def _small(self, small: cst.BaseSmallStatement) -> list[cst.BaseStatement] | None:
        match small:
            case cst.Import() | cst.ImportFrom():
                self.imports.append(small)
                return []
            case cst.Assign(targets=[cst.AssignTarget(target=target)], value=value):
                return self._assign(target, value, small)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                return self._annotated(target, value, small)
            case cst.AugAssign(target=target, operator=operator, value=value):
                return self._update(target, operator, value, small)
            case cst.Expr(value=cst.Call() as call):
                return self._call(call, small)
            case cst.Return(value=cst.BaseExpression() as value) | cst.Expr(value=value):
                before: list[cst.BaseStatement] = []
                new = self._expression(value, before)
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
        if isinstance(value, cst.Call) and self.names.full(value.func) == "nki.language.loop_reduce":
            return self._loop_reduced(target, value)
        if isinstance(target, cst.Name):
            tensor = self.types.tensor(value)
            new = self._named(target.value, value, small)
            self._forget(target.value)
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
                if known.shape is None or all(size.text.startswith(f"{owner}.") for size in known.shape):
                    shape = tuple(Polynomial.of(name) for name in names)
                    self.types.tensors[owner] = Tensor(shape, known.dtype, known.buffer, known.blocks)
                    self.types.forget()
            case _:
                pass

    def _named(self, name: str, value: cst.BaseExpression, small: cst.BaseSmallStatement) -> list[cst.BaseStatement]:
        """``name = value``."""
        if isinstance(value, cst.Call):
            full = self.names.full(value.func)
            package, _, function = full.rpartition(".")
            if package == "nki.isa" and (function in RESULTS or function == "memset"):
                return self._result(name, function, value)
            if package == "nki.language" and function in CREATION:
                return self._created(name, function, value)
            mask = mask_of(value)
            if package == "nki.language" and mask is not None and one_line(mask) != "None":
                return self._masked(name, function, value, mask)
        before: list[cst.BaseStatement] = []
        new = self._expression(value, before)
        return [*before, line_of(cast(Any, small).with_changes(value=new))]

    # -- writes into tensors -------------------------------------------------------------------------------------


def _targets(one: cst.CSTNode) -> set[str]:
    found: set[str] = set()
    if isinstance(one, cst.SimpleStatementLine):
        for small in one.body:
            if isinstance(small, cst.Assign):
                for target in small.targets:
                    if isinstance(target.target, cst.Name):
                        found.add(target.target.value)
    return found


__all__ = ["Statements"]
