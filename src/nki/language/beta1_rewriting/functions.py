"""Functions of a Beta 1 file: decorators, results, parameters that were outputs, grids of programs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from nki.language.beta1_rewriting.facts import Facts, Tensor
from nki.language.beta1_rewriting.indices import Value, index_of_slice
from nki.language.beta1_rewriting.report import Report
from nki.language.beta1_rewriting.statements import Statements
from nki.language.beta1_rewriting.types import Types, arguments
from nki.source_text.lines import Line, as_it_is, head, is_same
from nki.source_text.names import Names, called
from nki.source_text.polynomial import Polynomial
from nki.source_text.source import Source, code_of, names_in, own_nodes, owner_of

_MATMULS: Final = ("nki.language.matmul", "nki.isa.nc_matmul")
_LAUNCHERS: Final = ("nki.jit", "nki.baremetal", "nki.benchmark", "nki.profile", "torch_neuronx.nki_jit")
_JIT: Final = ("nki.jit", "nki.baremetal", "torch_neuronx.nki_jit")


@dataclass(slots=True)
class Roles:
    """The functions at the top of a file by their use."""

    launched: AbstractSet[str] = frozenset()
    """Functions that are made kernels by a call, as in ``nki.jit(f)``."""
    on_device: AbstractSet[str] = frozenset()
    """Kernels, and what they call."""
    undecorated: AbstractSet[str] = frozenset()
    """Kernels that kernels call: they lose their decorator, and host code applies it at its own calls."""
    named_by_host: AbstractSet[str] = frozenset()
    """Kernels with a decorator that host code names."""
    grids: Mapping[str, str] = field(default_factory=dict[str, str])
    """Grids of literal launches in the file, by kernel."""


class Functions:
    """Rewrites the functions of one file; ``grids`` lists the kernels that were launched on a grid."""

    def __init__(self, names: Names, facts: Facts, report: Report, roles: Roles | None = None) -> None:
        self.names = names
        self.facts = facts
        self.report = report
        self.roles = roles if roles is not None else Roles()
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.grids: dict[str, int] = {}

    def function(self, node: ast.FunctionDef, outer: Types | None) -> list[Line]:
        """One function of today."""
        body = self.body(node, outer)
        types, kernel = body.types, self._is_kernel(node)
        decorators = [self._decorator(one, node.name) for one in node.decorator_list]
        changes = body.changes(node)
        row = head(node, node.body, changes)[1]
        lines = body.block(node.body, row)
        self.imports += body.imports
        same = is_same(node.body, lines) and not changes
        parameters = _parameters(node)
        lines = _with_equal_dtypes(lines, types.equal, parameters)
        outputs = self._outputs(node, parameters) if kernel else []
        lines += [Line(f"return {', '.join(outputs)}")] if outputs else []
        more: list[tuple[int, int, str]] = []
        if body.grid:
            lines = _looped(lines, body.grid)
            more.append(_with_parameter(node, f"grid={self._grid(node.name, body.grid)}"))
        if same and not outputs and not more and decorators == [f"@{code_of(one)}" for one in node.decorator_list]:
            return [as_it_is(node)]
        line, _ = head(node, node.body, changes, more)
        line.body = lines
        return [*(Line(text, fixed=True) for text in decorators if text), line]

    def body(self, node: ast.FunctionDef, outer: Types | None) -> Statements:
        """The rewriting of a function's statements, with what is known of its parameters."""
        types = Types(self.names, self.facts)
        if outer is not None:
            types.values.update(outer.values)
            types.tensors.update(outer.tensors)
            types.allocators.update(outer.allocators)
        parameters = _parameters(node)
        for name in parameters:
            types.values.pop(name, None)
            types.tensors.pop(name, None)
        uses = _name_nodes(node, parameters)
        types.values.update(_index_parameters(uses, self.facts))
        kernel = self._is_kernel(node)
        types.on_device = kernel or node.name in self.roles.on_device or (outer is not None and outer.on_device)
        if kernel:
            self.report.kernels.add(node.name)
        for name, buffer in self._tensors(node, parameters, kernel=kernel).items():
            types.tensors[name] = _parameter(name, uses.get(name, []), self.facts, buffer)
        for name in uses.keys() - types.tensors.keys():
            if id(uses[name][0]) in self.facts.tensors:
                types.tensors[name] = _parameter(name, uses[name], self.facts, "")
            elif any(self.facts.kind(one) == "number" for one in uses[name]):
                types.loose.add(name)
        body = Statements(types, self.report, names_in(node))
        body.functions = self.function
        if not self.facts.assumed:  # a statement that is advised upon is the only one that changes
            lines_that_go(node, self.names, body)
        _note_uses(node, self.names, body)
        return body

    def _is_kernel(self, node: ast.FunctionDef) -> bool:
        if node.name in self.roles.launched | self.roles.named_by_host:
            return True
        first = next((one for one in node.decorator_list if self.names.full(called(one)) in _LAUNCHERS), None)
        return first is not None and not _is_trace(first)

    def _decorator(self, node: ast.expr, name: str) -> str:
        """The decorator of today, "" for none."""
        full = self.names.full(called(node))
        if full.startswith("nki.compiler."):
            return ""
        trace = full == "nki.trace" or (full in _LAUNCHERS and _is_trace(node))
        if (trace or full in _JIT) and name in self.roles.undecorated:
            return ""
        if trace and name not in self.roles.launched | self.roles.named_by_host:  # other files' kernels call it
            return ""
        return f"@{self.names.alias('nki.jit') or 'nki.jit'}" if trace or full in _JIT else f"@{code_of(node)}"

    def _tensors(self, node: ast.FunctionDef, parameters: Sequence[str], *, kernel: bool) -> dict[str, str]:
        """The parameters that the code treats as tensors, and their memory."""
        uses = _TensorUses(self.names, set(parameters), node)
        return {
            name: "hbm" if kernel or name in uses.in_hbm else "sbuf"
            for name in parameters
            if name in uses.in_hbm or name in uses.tensors
        }

    def _outputs(self, node: ast.FunctionDef, parameters: Sequence[str]) -> list[str]:
        """The parameters that a kernel without a result writes: today it returns them, which says that they change."""
        if _returned(node):
            return []
        stored = _TensorUses(self.names, set(parameters), node).stored
        return [name for name in parameters if name in stored]

    def _grid(self, name: str, grid: dict[int, str]) -> str:
        """The launch grid of a kernel, where nothing else is passed."""
        self.grids[name] = max(grid) + 1
        if name in self.roles.grids:
            return self.roles.grids[name]
        self.report.notes.append(f"`{name}`: no launch in this file names its grid; pass `grid=(…)`")
        return f"({', '.join('1' for _ in range(max(grid) + 1))},)"


def _parameters(node: ast.FunctionDef) -> list[str]:
    return [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]


def _is_trace(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and any(k.arg == "mode" and "trace" in code_of(k.value) for k in node.keywords)


def _with_parameter(node: Any, text: str) -> tuple[int, int, str]:
    """The place of one more parameter in the head of a function, twice, and its code there."""
    source: Source = node.source
    args = node.args
    keyword_only = args.kwonlyargs or args.vararg
    if args.kwarg is not None:
        place = source.text.rindex("**", 0, source.span(args.kwarg)[0])
        return place, place, f"{'' if keyword_only else '*, '}{text}, "
    parts = [*args.posonlyargs, *args.args, *args.kwonlyargs, *args.defaults, *(d for d in args.kw_defaults if d)]
    parts += [args.vararg] if args.vararg is not None else []
    if not parts:
        place = source.text.index("(", source.span(node)[0]) + 1
        return place, place, text
    place = max(source.span(part)[1] for part in parts)
    return place, place, f", {text}"


def _looped(lines: list[Line], grid: dict[int, str]) -> list[Line]:
    """The body once per program, one after the other; outputs are allocated before."""
    end = next((k for k, line in enumerate(lines) if re.match(r"return\b", line.text)), len(lines))
    first = next((k for k, line in enumerate(lines) if any(n.startswith("program_") for n in line.names)), len(lines))
    before, body, after = lines[:first], lines[first:end], lines[end:]
    moved = [line for line in body if line.body is None and "buffer=nl.shared_hbm" in line.text]
    loop = [line for line in body if not any(line is one for one in moved)]
    for axis in reversed(range(max(grid) + 1)):
        loop = [Line(f"for program_{axis} in range(grid[{axis}]):", loop)]
    return [*before, *moved, *loop, *after]


def _inside(node: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function's body, in the order of the source."""
    waiting: list[ast.AST] = [*reversed(node.body)]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(list(ast.iter_child_nodes(one)))


def _returned(node: ast.FunctionDef) -> list[ast.expr]:
    """The results of a function."""
    values = [one.value for one in own_nodes(*node.body) if isinstance(one, ast.Return) and one.value is not None]
    return [value for value in values if code_of(value) != "None"]


class _TensorUses:
    """The names, of some, that a function uses as tensors, in HBM, and as destinations."""

    def __init__(self, names: Names, known: set[str], function: ast.FunctionDef) -> None:
        self.names = names
        self.known = known
        self.tensors: set[str] = set()
        self.in_hbm: set[str] = set()
        self.stored: set[str] = set()
        for node in _inside(function):
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr="shape" | "dtype") if name in known:
                    self.tensors.add(name)
                case ast.Call():
                    self._look(node, names.full(node.func))
                case _:
                    pass

    def _look(self, node: ast.Call, full: str) -> None:
        if full in ("nki.language.load", "nki.language.load_transpose2d"):
            self._note(node.args[0] if node.args else arguments(node).get("src"), self.in_hbm)
        elif full == "nki.language.store":
            dst = arguments(node, ("dst", "value")).get("dst")
            self._note(dst, self.in_hbm)
            self._note(dst, self.stored)
        elif full == "nki.isa.dma_copy":
            named = arguments(node, ("dst", "src"))
            for key, found in (("dst", self.stored), ("dst", self.tensors), ("src", self.tensors)):
                self._note(named.get(key), found)
        elif full.startswith("nki.isa."):
            for value in (*node.args, *(k.value for k in node.keywords)):
                if isinstance(value, ast.Subscript):
                    self._note(value, self.tensors)

    def _note(self, node: ast.expr | None, found: set[str]) -> None:
        name = base_of(node)
        if name in self.known:
            found.add(name)


def base_of(node: ast.expr | None) -> str:
    """The name of what is indexed, at any depth; "" for other expressions."""
    owner = owner_of(node) if node is not None else None
    return owner.id if isinstance(owner, ast.Name) else ""


def lines_that_go(function: ast.FunctionDef, names: Names, body: Statements) -> None:
    """Find lines that go: ``p = nl.matmul(…)`` before ``acc += p``, and allocations that nothing uses."""
    uses: dict[str, int] = {}
    pairs: list[tuple[ast.stmt, str, ast.Call, ast.AugAssign]] = []
    counts: dict[str, int] = {}
    for node in _inside(function):
        if isinstance(node, ast.Name):
            uses[node.id] = uses.get(node.id, 0) + 1
    for block in _blocks(function):
        for place, line in enumerate(block):
            match line:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func) as call):
                    if names.full(func) in ("nki.language.ndarray", "nki.language.zeros"):
                        body.moved |= {id(line)} if _bound_anew(name, block[place + 1 :]) else set()
                    match block[place + 1 : place + 2]:
                        case [ast.AugAssign(op=ast.Add(), value=ast.Name(id=added)) as update] if (
                            name == added and names.full(func) in _MATMULS
                        ):
                            pairs.append((line, name, call, update))
                            counts[name] = counts.get(name, 0) + 2
                        case _:
                            pass
                case _:
                    pass
    for line, name, product, update in pairs:
        if uses[name] == counts[name]:  # the name occurs nowhere else
            body.products[id(update.value)] = product
            body.moved.add(id(line))


def _blocks(function: ast.FunctionDef) -> Iterator[list[ast.stmt]]:
    """All blocks of a function."""
    yield function.body
    for node in _inside(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                yield block


def _bound_anew(name: str, lines: Sequence[ast.stmt]) -> bool:
    """True if the first of ``lines`` with a name binds it to something that does not use it."""
    match next((line for line in lines if name in names_in(line)), None):
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            return target == name and name not in names_in(value)
        case _:
            return False


def _name_nodes(node: ast.FunctionDef, parameters: Sequence[str]) -> dict[str, list[ast.Name]]:
    """The uses of each parameter in the body of a function."""
    found: dict[str, list[ast.Name]] = {}
    for part in _inside(node):
        if isinstance(part, ast.Name) and part.id in parameters:
            found.setdefault(part.id, []).append(part)
    return found


def _index_parameters(uses: dict[str, list[ast.Name]], facts: Facts) -> dict[str, Value]:
    """The parameters that were index tiles of one axis, as slices: callers pass ``slice(start, stop)``."""
    found: dict[str, Value] = {}
    for name, nodes in uses.items():
        kinds = {facts.kind(one) for one in nodes} - {""}
        index = index_of_slice(name, next(iter(kinds))) if len(kinds) == 1 else None
        if index is not None:
            found[name] = index
    return found


def _with_equal_dtypes(lines: list[Line], pairs: Sequence[tuple[str, str]], parameters: Sequence[str]) -> list[Line]:
    """The body with an assertion for each two parameters with dtypes that it takes as equal."""
    known = [
        pair for pair in dict.fromkeys(pairs) if all(name.removesuffix(".dtype") in parameters for name in pair)
    ]  # fmt: skip
    place = 1 if lines and re.match(r"[rRuUbB]*[\"']", lines[0].text) else 0
    return [*lines[:place], *(Line(f"assert {one} == {other}") for one, other in known), *lines[place:]]


def _parameter(name: str, uses: Sequence[ast.Name], facts: Facts, buffer: str) -> Tensor:
    """A tensor that is a parameter: its sizes are named by its shape, so that no size of a run gets into the code."""
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


def _note_uses(function: ast.FunctionDef, names: Names, body: Statements) -> None:
    """Find the tiles that a function sums in and writes in part, before it is rewritten."""
    other: set[str] = set()
    for node in _inside(function):
        match node:
            case ast.Assign(targets=[ast.Subscript() as target, *_], value=value) if name := base_of(target):
                other.add(name)
                if (
                    not body.types.facts.assumed
                    and isinstance(value, ast.Call)
                    and any(k.arg == "mask" for k in value.keywords)
                ):
                    body.filled.add(name)
            case ast.AugAssign(target=target, op=op, value=value):
                value = body.products.get(id(value), value)
                product = isinstance(value, ast.Call) and names.full(value.func) in _MATMULS
                (body.accumulators if product and isinstance(op, ast.Add) else other).add(base_of(target))
            case _:
                pass
    body.accumulators -= other
    body.returned |= names_in(*_returned(function))


__all__ = ["Functions", "Roles"]
