"""Meanings of names at one statement of a function, as far as the source tells: modules, index tiles, masks, tensors
and their memory.
"""

from __future__ import annotations

import ast
import sys
import types
from dataclasses import dataclass, field
from typing import Any, Final, cast

import nki.isa as nisa
from nki.frontend.scopes import UNKNOWN
from nki.frontend.site import Site
from nki.language.advice.beta1.formulas import Comparison, Index, Mask, Variable, minus
from nki.language.tensor import NkiTensor

NL: Final = "nki.language."
NISA: Final = "nki.isa."
_PSUM: Final = frozenset({"matmul", "transpose", "nc_matmul", "nc_transpose"})
_CREATE: Final = frozenset({"ndarray", "zeros", "ones", "full", "empty_like", "zeros_like", "rand"})
_NO_TENSORS: Final = frozenset({
    "affine_range", "sequential_range", "static_range", "dynamic_range", "program_id", "num_programs", "par_dim", "ds",
    "store", "device_print", "program_ndim", "arange", "mgrid", "register_alloc", "get_nc_version", "random_seed",
})  # fmt: skip
_BARE: Final = {
    **{name: NL + name for name in ("arange", "mgrid", "par_dim", "affine_range", "sequential_range")},
    "sb_mod": "nki.compiler.sbuf.mod_alloc",
}
"""Names that files import one by one, and that no module has any longer."""
_GRID_NAMES: Final = "pxyzw"


@dataclass(frozen=True, slots=True)
class Memory:
    """A tensor: its buffer, "sbuf", "psum" or one of HBM; ``blocks``: the lists around it."""

    buffer: str
    blocks: int = 0


@dataclass(slots=True)
class Scope:
    """The values of names in front of a statement."""

    modules: dict[str, str] = field(default_factory=dict[str, str])
    """Full names of modules and functions by the names of the code."""
    indices: dict[str, Index] = field(default_factory=dict[str, Index])
    grids: dict[str, list[Index]] = field(default_factory=dict[str, list[Index]])
    masks: dict[str, Mask | None] = field(default_factory=dict[str, "Mask | None"])
    tensors: dict[str, Memory] = field(default_factory=dict[str, Memory])
    parameters: frozenset[str] = frozenset()
    taken: set[str] = field(default_factory=set[str])
    """All names of the function."""

    def full(self, node: ast.AST) -> str:
        """The full name of a dotted name, "" for other code."""
        match node:
            case ast.Name(id=name):
                return self.modules.get(name) or _BARE.get(name, "")
            case ast.Attribute(value=owner, attr=name):
                around = self.full(owner)
                return f"{around}.{name}" if around else ""
            case _:
                return ""

    def alias(self, module: str, customary: str) -> str:
        """The name of a module in this code."""
        return next((name for name, full in self.modules.items() if full == module), customary)

    # -- indices ----------------------------------------------------------------------------------------------------

    def index(self, node: ast.expr) -> Index | None:
        """The index that an expression is; None for other expressions, and for products of variables."""
        match node:
            case ast.Name(id=name) if name in self.indices:
                return self.indices[name]
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return Index(number=number)
            case ast.Subscript(value=ast.Call() as call, slice=keys) if self.full(call.func) == NL + "arange":
                return self._arange(call, keys)
            case ast.Subscript(value=owner, slice=ast.Constant(value=int(number))) if grid := self._grid(owner):
                return grid[number] if -len(grid) <= number < len(grid) else None
            case ast.Attribute(value=owner, attr=name) if (grid := self._grid(owner)) and name in _GRID_NAMES:
                axis = _GRID_NAMES.index(name)
                return grid[axis] if axis < len(grid) else None
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                one, other = self.index(left), self.index(right)
                if one is None or other is None:
                    return None
                return one.plus(other, 1 if isinstance(op, ast.Add) else -1)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                one, other = self.index(left), self.index(right)
                if one is None or other is None or (one.steps and other.steps):
                    return None
                if one.steps or other.steps:
                    return one.times(other.base) if one.steps else other.times(one.base)
            case _:
                pass
        if self._mentions(node):
            return None
        text = ast.unparse(node)
        return Index(f"({text})" if isinstance(node, ast.IfExp | ast.BoolOp) else text)

    def is_index(self, node: ast.expr) -> bool:
        """True for an index with a variable."""
        if isinstance(node, ast.Slice | ast.Tuple | ast.List | ast.Compare):
            return False
        index = self.index(node)
        return index is not None and bool(index.steps)

    def _mentions(self, node: ast.AST) -> bool:
        """True if a part of ``node`` is an index tile."""
        names = {*self.indices, *self.grids}
        return any(
            (isinstance(part, ast.Name) and part.id in names)
            or (isinstance(part, ast.Attribute | ast.Name) and self.full(part) in (NL + "arange", NL + "mgrid"))
            for part in ast.walk(node)
        )

    def _arange(self, call: ast.Call, keys: ast.expr) -> Index | None:
        places = keys.elts if isinstance(keys, ast.Tuple) else [keys]
        slices = [k for k, key in enumerate(places) if isinstance(key, ast.Slice)]
        if len(slices) != 1 or not 1 <= len(call.args) <= 2:
            return None
        texts = [ast.unparse(arg) for arg in call.args]
        start, size = ("0", texts[0]) if len(texts) == 1 else (texts[0], minus(texts[1], texts[0]))
        variable = Variable(f"{call.lineno}:{call.col_offset}", size, slices[0] - len(places))
        return _shifted(variable, start, len(places))

    def _grid(self, node: ast.expr) -> list[Index] | None:
        match node:
            case ast.Name(id=name):
                return self.grids.get(name)
            case ast.Subscript(value=owner, slice=keys) if self.full(owner) == NL + "mgrid":
                parts = keys.elts if isinstance(keys, ast.Tuple) else [keys]
                found: list[Index] = []
                for k, part in enumerate(parts):
                    if not isinstance(part, ast.Slice) or part.upper is None or part.step is not None:
                        return None
                    start = ast.unparse(part.lower) if part.lower is not None else "0"
                    size = minus(ast.unparse(part.upper), start)
                    variable = Variable(f"{node.lineno}:{node.col_offset}:{k}", size, k - len(parts))
                    found.append(_shifted(variable, start, len(parts)))
                return found
            case _:
                return None

    # -- masks ------------------------------------------------------------------------------------------------------

    def mask(self, node: ast.expr | None) -> Mask | None:
        """The comparisons of a mask; None if it is none that the source tells."""
        match node:
            case None | ast.Constant(value=None | True):
                return ()
            case ast.Name(id=name):
                return self.masks.get(name)
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right) | ast.BoolOp(op=ast.And(), values=[left, right]):
                one, other = self.mask(left), self.mask(right)
                return None if one is None or other is None else (*one, *other)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                one, other = self.index(left), self.index(right)
                if self.memory(left) or self.memory(right):
                    return None  # a mask of values, which are not known before the kernel runs
                comparable = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
                if one is None or other is None or not isinstance(op, comparable):
                    return None
                return (Comparison(one, type(op), other, ast.unparse(node)),)
            case _:
                return None

    def is_definition(self, statement: ast.stmt) -> bool:
        """True for an assignment whose value is an index tile or a mask of some."""
        match statement:
            case ast.Assign(value=ast.Tuple(elts=parts)):
                return all(self.is_index(part) for part in parts)
            case ast.Assign(targets=[ast.Name() | ast.Tuple()], value=ast.Compare() | ast.BinOp() as value):
                mask = None if self.is_index(value) else self.mask(value)
                return self.is_index(value) or (
                    mask is not None and any(part.left.steps or part.right.steps for part in mask)
                )
            case ast.Assign(targets=[ast.Name() | ast.Tuple()], value=value):
                return self.is_index(value) or bool(self._grid(value))
            case _:
                return False

    # -- tensors ----------------------------------------------------------------------------------------------------

    def memory(self, node: ast.AST) -> Memory | None:
        """The memory of the tensor that an expression gives; None if it is none, or unknown."""
        match node:
            case ast.Name(id=name):
                return self.tensors.get(name)
            case ast.Subscript(value=owner):
                return self.memory(owner)
            case ast.Call(func=ast.Attribute(value=owner)) if (memory := self.memory(owner)) is not None:
                return memory
            case ast.Call(func=function):
                return self._result(node, self.full(function))
            case ast.BinOp(left=left, right=right):
                return Memory("sbuf") if self.memory(left) or self.memory(right) else None
            case ast.UnaryOp(operand=operand):
                return Memory("sbuf") if self.memory(operand) else None
            case ast.Compare(left=left, comparators=[right]):
                return Memory("sbuf") if self.memory(left) or self.memory(right) else None
            case ast.ListComp(elt=inner):
                memory = self.memory(inner)
                return Memory(memory.buffer, memory.blocks + 1) if memory is not None else None
            case _:
                return None

    def _result(self, call: ast.Call, full: str) -> Memory | None:
        package, _, name = full.rpartition(".")
        if package + "." not in (NL, NISA) or name in _NO_TENSORS or name[:1].isupper():
            return None
        if name in _CREATE:
            given = next((k.value for k in call.keywords if k.arg == "buffer"), None)
            buffer = given if given is not None else next(iter(call.args[2:3]), None) if name != "full" else None
            shape = next((k.value for k in call.keywords if k.arg == "shape"), next(iter(call.args[:1]), None))
            return Memory(self._buffer(buffer), self.blocks(shape))
        if name in ("shared_constant", "shared_identity_matrix"):
            return Memory("shared_hbm")
        on_vector = any(k.arg == "engine" and "vector" in ast.unparse(k.value) for k in call.keywords)
        return Memory("psum" if name in _PSUM and not on_vector else "sbuf")

    def _buffer(self, node: ast.expr | None) -> str:
        text = ast.unparse(node) if node is not None else "sbuf"
        return next((name for name in ("psum", "shared_hbm", "private_hbm", "hbm") if name in text), "sbuf")

    def blocks(self, shape: ast.expr | None) -> int:
        """The number of dimensions before ``par_dim`` in a shape."""
        parts = shape.elts if isinstance(shape, ast.Tuple | ast.List) else []
        return next((k for k, part in enumerate(parts) if self.partitions(part) is not None), 0)

    def partitions(self, node: ast.expr) -> ast.expr | None:
        """``n`` of ``nl.par_dim(n)``."""
        match node:
            case ast.Call(func=function, args=[size]) if self.full(function) == NL + "par_dim":
                return size
            case _:
                return None

    # -- statements -------------------------------------------------------------------------------------------------

    def learn(self, statement: ast.stmt) -> None:
        """Take in an assignment."""
        match statement:
            case ast.Import(names=names):
                self.modules |= {each.asname or each.name: _of_today(each.name) for each in names if each.asname}
            case ast.ImportFrom(module=str(module), names=names):
                self.modules |= {each.asname or each.name: f"{_of_today(module)}.{each.name}" for each in names}
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._bind(name, value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name):
                        self._bind(target.id, value)
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value) if (grid := self._grid(value)) is not None:
                for target, index in zip(targets, grid, strict=False):
                    if isinstance(target, ast.Name):
                        self.indices[target.id] = index
            case _:
                pass

    def _bind(self, name: str, value: ast.expr) -> None:
        grid, is_index = self._grid(value), self.is_index(value)
        index = self.index(value) if is_index else None
        mask = self.mask(value) if isinstance(value, ast.Compare | ast.BinOp) and not is_index else None
        memory = self.memory(value)
        for table in (self.indices, self.grids, self.masks, self.tensors):
            table.pop(name, None)
        if index is not None:
            self.indices[name] = index
        elif grid is not None:
            self.grids[name] = grid
        elif mask is not None and any(part.left.steps or part.right.steps for part in mask):
            self.masks[name] = mask
        elif memory is not None:
            self.tensors[name] = memory


def _shifted(variable: Variable, start: str, ndim: int) -> Index:
    is_number = start.lstrip("-").isdigit()
    return Index("" if is_number else start, int(start) if is_number else 0, {variable: "1"}, ndim)


def _of_today(module: str) -> str:
    return module.removeprefix("neuronxcc.")


def statements(function: ast.AST) -> list[ast.stmt]:
    """The statements of a function in the order of their lines, those of blocks among them."""
    found = [n for n in ast.walk(function) if isinstance(n, ast.stmt) and n is not function]
    return sorted(found, key=lambda n: (n.lineno, n.col_offset))


def scope_before(captured: Any, line: int) -> Scope:
    """The scope in front of ``line`` of a captured function."""
    function: Any = captured.node
    scope = Scope()
    cells = {name: captured.closure(name) for name in captured.cells}
    for name, value in {**captured.globals, **cells}.items():
        if value is not UNKNOWN and (full := _full_name(value)):
            scope.modules[name] = full
    scope.taken = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)} | {*captured.globals}
    names = [each.arg for each in function.args.args + function.args.kwonlyargs]
    scope.parameters = frozenset(names)
    for name in names:
        if (memory := _parameter(function, name)) is not None:
            scope.tensors[name] = memory
    for statement in statements(function):
        if statement.lineno < line:
            scope.learn(statement)
    return scope


def scope_at(site: Site) -> Scope:
    """The scope of a statement that has failed, from the values of its names."""
    scope = Scope(taken=set(site.variables))
    for name, value in site.variables.items():
        if full := _full_name(value):
            scope.modules[name] = full
        elif (memory := _memory_of(value)) is not None:
            scope.tensors[name] = memory
    return scope


def _memory_of(value: object) -> Memory | None:
    """The memory of a tensor, or of the tensors in lists."""
    if isinstance(value, NkiTensor):
        return Memory(value.buffer.value)
    if isinstance(value, list) and value:
        inner = _memory_of(cast("list[object]", value)[0])
        return Memory(inner.buffer, inner.blocks + 1) if inner is not None else None
    return None


def _full_name(value: object) -> str:
    """The full name of a module, or of a function of ``nki.isa`` and ``nki.language`` that was imported by itself."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    name = getattr(value, "__name__", "")
    if isinstance(name, str) and callable(value):
        for full, module in ((NISA, nisa), (NL, sys.modules["nki.language"])):
            if name and getattr(module, name, None) is value:
                return full + name
    return ""


def _parameter(function: ast.AST, name: str) -> Memory | None:
    """The memory of a parameter: HBM if a transfer names it, else a tile if it is indexed or has a shape."""
    found = None
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr=called) | ast.Name(id=called), args=args, keywords=keywords) if (
                called in _TRANSFERS
            ):
                operands = [*args[:2], *(k.value for k in keywords if k.arg in ("src", "dst"))]
                if called in ("store", "load", "load_transpose2d"):
                    operands = [*args[:1], *(k.value for k in keywords if k.arg in ("src", "dst"))]
                roots = [each.value if isinstance(each, ast.Subscript) else each for each in operands]
                if any(isinstance(root, ast.Name) and root.id == name for root in roots):
                    return Memory("hbm")
            case (
                ast.Subscript(value=ast.Name(id=used)) | ast.Attribute(value=ast.Name(id=used), attr="shape" | "dtype")
            ):
                if used == name:
                    found = Memory("sbuf")
            case _:
                pass
    return found


_TRANSFERS: Final = frozenset({"load", "store", "load_transpose2d", "dma_copy", "dma_transpose"})


__all__ = ["NISA", "NL", "Memory", "Scope", "scope_at", "scope_before", "statements"]
