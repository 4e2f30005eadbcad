"""Functions of a Beta 1 file: decorators, results, parameters that were outputs, grids of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import libcst as cst

from nki.migrate.expressions import Expressions
from nki.migrate.facts import Facts, Tensor
from nki.migrate.indices import Value, index_of_slice
from nki.migrate.polynomial import Polynomial
from nki.migrate.report import Report
from nki.migrate.statements import Statements
from nki.migrate.sub_kernels import Roles
from nki.migrate.syntax.code import code_of, expression, one_line, statement
from nki.migrate.syntax.names import Names, names_in
from nki.migrate.types import Types, arguments

_MATMULS: Final = ("nki.language.matmul", "nki.isa.nc_matmul")
_LAUNCHERS: Final = ("nki.jit", "nki.baremetal", "nki.benchmark", "nki.profile", "torch_neuronx.nki_jit")
_JIT: Final = ("nki.jit", "nki.baremetal", "torch_neuronx.nki_jit")


class Functions:
    """Rewrites the functions of one file; ``grids`` lists the kernels that were launched on a grid."""

    def __init__(self, names: Names, facts: Facts, report: Report) -> None:
        self.names = names
        self.facts = facts
        self.report = report
        self.imports: list[cst.BaseSmallStatement] = []
        self.grids: dict[str, int] = {}
        self.launched: set[str] = set()
        """Functions that are made kernels by a call, as in ``nki.jit(f)``."""
        self.launches: dict[str, str] = {}
        """Grids of literal launches in the file, by kernel."""
        self.roles = Roles(cst.Module([]), names, set())

    def function(self, node: cst.FunctionDef, outer: Types | None) -> cst.FunctionDef:
        """One function of today."""
        types = Types(self.names, self.facts)
        if outer is not None:
            types.values.update(outer.values)
            types.tensors.update(outer.tensors)
            types.allocators.update(outer.allocators)
        parameters = [p.name.value for p in (*node.params.params, *node.params.kwonly_params)]
        for name in parameters:
            types.values.pop(name, None)
            types.tensors.pop(name, None)
        types.values.update(_index_parameters(node, parameters, self.facts))
        kernel = self._is_kernel(node)
        types.on_device = kernel or self.roles.is_on_device(node) or (outer is not None and outer.on_device)
        if kernel:
            self.report.kernels.add(node.name.value)
        uses = _name_nodes(node, parameters)
        for name, buffer in self._tensors(node, parameters, kernel=kernel).items():
            types.tensors[name] = _parameter(name, uses.get(name, []), self.facts, buffer)
        for name in uses.keys() - types.tensors.keys():
            if uses[name] and id(uses[name][0]) in self.facts.tensors:
                types.tensors[name] = _parameter(name, uses[name], self.facts, "")
            elif any(self.facts.others.get(id(one)) == "number" for one in uses[name]):
                types.loose.add(name)
        body = Statements(types, self.report, names_in(node))
        body.functions = self.function
        lines_that_go = _Lines(self.names)
        node.body.visit(lines_that_go)
        for line, _, product, update in lines_that_go.alone():
            body.products[id(update.value)] = product
            body.moved.add(id(line))
        body.moved |= {id(line) for line in lines_that_go.dead}
        _Uses(self.names, body).look(node)
        decorators = [new for one in node.decorators for new in self._decorator(one, node.name.value)]
        if isinstance(node.body, cst.IndentedBlock):
            lines = body.block(node.body.body)
        else:
            lines = body.block([cst.SimpleStatementLine([cast(Any, small)]) for small in node.body.body])
        self.imports += body.imports
        lines = _with_equal_dtypes(lines, types.equal, parameters)
        if kernel:
            lines = self._returned(node, lines, parameters)
        params = node.params
        if body.grid:
            lines = _looped(lines, body.grid)
            params = self._with_grid(node.name.value, params, body.grid)
        params = cast("cst.Parameters", params.visit(Expressions(types, set())))
        block = node.body if isinstance(node.body, cst.IndentedBlock) else cst.IndentedBlock([])
        block = block.with_changes(body=lines or [statement("pass")])
        returns = node.returns.visit(Expressions(types, set())) if node.returns is not None else None
        return node.with_changes(decorators=decorators, body=block, params=params, returns=returns)

    def _is_kernel(self, node: cst.FunctionDef) -> bool:
        if node.name.value in self.launched | self.roles.named_by_host:
            return True
        for one in node.decorators:
            called = one.decorator.func if isinstance(one.decorator, cst.Call) else one.decorator
            if self.names.full(called) in _LAUNCHERS:
                return not _is_trace(one.decorator)
        return False

    def _decorator(self, node: cst.Decorator, name: str) -> list[cst.Decorator]:
        inner = node.decorator
        called = inner.func if isinstance(inner, cst.Call) else inner
        full = self.names.full(called)
        if full.startswith("nki.compiler."):
            return []
        trace = full == "nki.trace" or (full in _LAUNCHERS and _is_trace(inner))
        if (trace or full in _JIT) and name in self.roles.undecorated:
            return []
        if trace and name not in self.launched | self.roles.named_by_host:  # other files' kernels call it
            return []
        if trace or full in _JIT:
            known = self.names.alias("nki.jit")
            return [node.with_changes(decorator=expression(known or "nki.jit"))]
        return [node]

    def _tensors(self, node: cst.FunctionDef, parameters: Sequence[str], *, kernel: bool) -> dict[str, str]:
        """The parameters that the code treats as tensors, and their memory."""
        finder = _TensorUses(self.names, set(parameters))
        node.body.visit(finder)
        return {
            name: "hbm" if kernel or name in finder.in_hbm else "sbuf"
            for name in parameters
            if name in finder.in_hbm or name in finder.tensors
        }

    def _returned(
        self, node: cst.FunctionDef, lines: list[cst.BaseStatement], parameters: Sequence[str]
    ) -> list[cst.BaseStatement]:
        """A kernel that only writes its parameters returns them: today that is what says that they change."""
        finder = _Returns()
        node.body.visit(finder)
        if finder.found:
            return lines
        stores = _TensorUses(self.names, set(parameters))
        node.body.visit(stores)
        outputs = [name for name in parameters if name in stores.stored]
        if not outputs:
            return lines
        return [*lines, statement(f"return {', '.join(outputs)}")]

    def _with_grid(self, name: str, params: cst.Parameters, grid: dict[int, str]) -> cst.Parameters:
        self.grids[name] = max(grid) + 1
        default = self.launches.get(name)
        new = cst.Param(cst.Name("grid"))
        if default is None:
            default = f"({', '.join('1' for _ in range(max(grid) + 1))},)"
            self.report.notes.append(f"`{name}`: no launch in this file names its grid; pass `grid=(…)`")
        new = new.with_changes(default=expression(default), equal=_EQUAL)
        if params.star_kwarg is not None or params.kwonly_params:
            return params.with_changes(kwonly_params=[*params.kwonly_params, new])
        existing = list(params.params)
        if existing:
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            last = existing[-1]
            existing[-1] = last if last.comma is not cst.MaybeSentinel.DEFAULT else last.with_changes(comma=comma)
        return params.with_changes(params=[*existing, new])


_EQUAL: Final = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _is_trace(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and any(
        arg.keyword is not None and arg.keyword.value == "mode" and "trace" in code_of(arg.value) for arg in node.args
    )


def _looped(lines: list[cst.BaseStatement], grid: dict[int, str]) -> list[cst.BaseStatement]:
    """The body once per program, one after the other; outputs are allocated before."""
    end = next((k for k, line in enumerate(lines) if _is_return(line)), len(lines))
    first = next(
        (k for k, line in enumerate(lines) if any(n.startswith("program_") for n in names_in(line))), len(lines)
    )
    before, body, after = lines[:first], lines[first:end], lines[end:]
    moved = [
        line for line in body if "buffer=nl.shared_hbm" in code_of(line) and isinstance(line, cst.SimpleStatementLine)
    ]
    body = [line for line in body if not any(line is one for one in moved)]
    loop: list[cst.BaseStatement] = body
    for axis in reversed(range(max(grid) + 1)):
        head = cast("cst.For", statement(f"for program_{axis} in range(grid[{axis}]):\n    pass"))
        loop = [head.with_changes(body=cst.IndentedBlock(loop))]
    return [*before, *moved, *loop, *after]


def _is_return(line: cst.BaseStatement) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and any(isinstance(s, cst.Return) for s in line.body)


class _Returns(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[cst.BaseExpression] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: ARG002
        return False

    def visit_Return(self, node: cst.Return) -> None:
        if node.value is not None and one_line(node.value) != "None":
            self.found.append(node.value)


class _TensorUses(cst.CSTVisitor):
    """Finds those of some names that are used as tensors, in HBM, and as destinations."""

    def __init__(self, names: Names, known: set[str]) -> None:
        super().__init__()
        self.names = names
        self.known = known
        self.tensors: set[str] = set()
        self.in_hbm: set[str] = set()
        self.stored: set[str] = set()

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if (
            node.attr.value in ("shape", "dtype")
            and isinstance(node.value, cst.Name)
            and node.value.value in self.known
        ):
            self.tensors.add(node.value.value)

    def visit_Call(self, node: cst.Call) -> None:
        full = self.names.full(node.func)
        if full in ("nki.language.load", "nki.language.load_transpose2d") and node.args:
            self._note(node.args[0].value, self.in_hbm)
        elif full == "nki.language.store":
            named = arguments(node, ("dst", "value"))
            if "dst" in named:
                self._note(named["dst"].value, self.in_hbm)
                self._note(named["dst"].value, self.stored)
        elif full == "nki.isa.dma_copy":
            named = arguments(node, ("dst", "src"))
            for key, found in (("dst", self.stored), ("dst", self.tensors), ("src", self.tensors)):
                if key in named:
                    self._note(named[key].value, found)
        elif full.startswith("nki.isa."):
            for arg in node.args:
                if isinstance(arg.value, cst.Subscript):
                    self._note(arg.value, self.tensors)

    def _note(self, node: cst.BaseExpression, found: set[str]) -> None:
        while isinstance(node, cst.Subscript):
            node = node.value
        if isinstance(node, cst.Name) and node.value in self.known:
            found.add(node.value)


class _Lines(cst.CSTVisitor):
    """Finds lines that go: ``p = nl.matmul(…)`` before ``acc += p``, and allocations that nothing uses."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self.names = names
        self.uses: dict[str, int] = {}
        self.pairs: list[tuple[cst.BaseStatement, str, cst.Call, cst.AugAssign]] = []
        self.dead: list[cst.BaseStatement] = []
        """Allocations whose name is bound anew before it is used."""

    def visit_Name(self, node: cst.Name) -> None:
        self.uses[node.value] = self.uses.get(node.value, 0) + 1

    def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:
        for place, line in enumerate(node.body):
            name = self._declared(line)
            if name and _bound_anew(name, node.body[place + 1 :]):
                self.dead.append(line)
        for first, second in zip(node.body, node.body[1:], strict=False):
            match first, second:
                case (
                    cst.SimpleStatementLine(
                        body=[
                            cst.Assign(
                                targets=[cst.AssignTarget(target=cst.Name(value=name))], value=cst.Call() as product
                            )
                        ]
                    ),
                    cst.SimpleStatementLine(
                        body=[cst.AugAssign(operator=cst.AddAssign(), value=cst.Name(value=added)) as update]
                    ),
                ) if name == added and self.names.full(product.func) in _MATMULS:
                    self.pairs.append((first, name, product, update))
                case _:
                    pass

    def _declared(self, line: cst.BaseStatement) -> str:
        """The name of a tile that a line allocates; "" for other lines."""
        match line:
            case cst.SimpleStatementLine(
                body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=cst.Call(func=func))]
            ) if self.names.full(func) in ("nki.language.ndarray", "nki.language.zeros"):
                return name
            case _:
                return ""

    def alone(self) -> list[tuple[cst.BaseStatement, str, cst.Call, cst.AugAssign]]:
        """The pairs whose name occurs nowhere else."""
        counts: dict[str, int] = {}
        for _, name, _, _ in self.pairs:
            counts[name] = counts.get(name, 0) + 2
        return [pair for pair in self.pairs if self.uses[pair[1]] == counts[pair[1]]]


def _bound_anew(name: str, lines: Sequence[cst.BaseStatement]) -> bool:
    """True if the first of ``lines`` with a name binds it to something that does not use it."""
    first = next((line for line in lines if name in names_in(line)), None)
    match first:
        case cst.SimpleStatementLine(
            body=[cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=target))], value=value)]
        ):
            return target == name and name not in names_in(value)
        case _:
            return False


def _index_parameters(node: cst.FunctionDef, parameters: Sequence[str], facts: Facts) -> dict[str, Value]:
    """The parameters that were index tiles of one axis, as slices: callers pass ``slice(start, stop)``."""
    found: dict[str, Value] = {}
    for name, nodes in _name_nodes(node, parameters).items():
        kinds = {facts.others.get(id(one), "") for one in nodes} - {""}
        index = index_of_slice(name, next(iter(kinds))) if len(kinds) == 1 else None
        if index is not None:
            found[name] = index
    return found


def _name_nodes(node: cst.FunctionDef, parameters: Sequence[str]) -> dict[str, list[cst.Name]]:
    """The uses of each parameter in the body of a function."""
    names = _NameNodes(set(parameters))
    node.body.visit(names)
    return names.found


def _with_equal_dtypes(
    lines: list[cst.BaseStatement], pairs: Sequence[tuple[str, str]], parameters: Sequence[str]
) -> list[cst.BaseStatement]:
    """The body with an assertion for each two parameters whose dtypes it takes as equal."""
    names = [name for pair in pairs for name in pair if name.removesuffix(".dtype") in parameters]
    known = [pair for pair in dict.fromkeys(pairs) if all(name in names for name in pair)]
    place = 1 if lines and _is_docstring(lines[0]) else 0
    return [*lines[:place], *(statement(f"assert {one} == {other}") for one, other in known), *lines[place:]]


def _is_docstring(line: cst.BaseStatement) -> bool:
    match line:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString())]):
            return True
        case _:
            return False


def _parameter(name: str, uses: Sequence[cst.Name], facts: Facts, buffer: str) -> Tensor:
    """A tensor that is a parameter: its sizes are those of its shape, so that no size of a run gets into the code."""
    seen = list(facts.all.get(id(uses[0]), ())) if uses else []
    kinds = {(one.buffer, len(one.shape), bool(one.blocks)) for one in seen}
    buffer = buffer or (seen[0].buffer if seen else "sbuf")
    if len(kinds) != 1 or seen[0].blocks:
        return Tensor(None, f"{name}.dtype", buffer)
    sizes: list[Polynomial] = []
    for axis in range(len(seen[0].shape)):
        ones = {one.shape[axis] == 1 for one in seen}
        if len(ones) > 1:  # repeated in some calls and not in others
            return Tensor(None, f"{name}.dtype", buffer)
        sizes.append(Polynomial.of(1) if ones == {True} else Polynomial.of(f"{name}.shape[{axis}]"))
    return Tensor(tuple(sizes), f"{name}.dtype", buffer)


class _NameNodes(cst.CSTVisitor):
    """Finds the uses of some names."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names
        self.found: dict[str, list[cst.Name]] = {}

    def visit_Name(self, node: cst.Name) -> None:
        if node.value in self.names:
            self.found.setdefault(node.value, []).append(node)


class _Uses(cst.CSTVisitor):
    """Finds the tiles that a function sums in and writes in part, before it is rewritten."""

    def __init__(self, names: Names, body: Statements) -> None:
        super().__init__()
        self.names = names
        self.body = body
        self.other: set[str] = set()

    def look(self, node: cst.FunctionDef) -> None:
        node.body.visit(self)
        self.body.accumulators -= self.other
        returns = _Returns()
        node.body.visit(returns)
        for value in returns.found:
            self.body.returned |= names_in(value)

    def visit_Assign(self, node: cst.Assign) -> None:
        target = node.targets[0].target
        name = _base(target)
        if not isinstance(target, cst.Subscript) or not name:
            return
        self.other.add(name)
        if isinstance(node.value, cst.Call) and any(
            arg.keyword is not None and arg.keyword.value == "mask" for arg in node.value.args
        ):
            self.body.filled.add(name)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        name = _base(node.target)
        value = self.body.products.get(id(node.value), node.value)
        product = isinstance(value, cst.Call) and self.names.full(value.func) in _MATMULS
        if product and isinstance(node.operator, cst.AddAssign):
            self.body.accumulators.add(name)
        else:
            self.other.add(name)


def _base(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Subscript):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""


def body_of(module: Any) -> Sequence[cst.BaseStatement]:
    """The statements of a module."""
    return cast("Sequence[cst.BaseStatement]", module.body)


__all__ = ["Functions", "body_of"]
