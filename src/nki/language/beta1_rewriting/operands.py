"""Operands of expressions as source text."""

from __future__ import annotations

import ast
from typing import Any

from nki.frontend.site import keys_of
from nki.language.beta1_rewriting.addresses import address, block_indices, itemsize
from nki.language.beta1_rewriting.calls import NewCall
from nki.language.beta1_rewriting.dense import Group, group_of
from nki.language.beta1_rewriting.facts import Facts, Tensor, shape_text
from nki.language.beta1_rewriting.indices import Mask, Variable
from nki.language.beta1_rewriting.tables import ALIKE
from nki.language.beta1_rewriting.types import Types, arguments
from nki.source_text.source import names_in, one_line


def as_bytes(types: Types, call: NewCall) -> NewCall:
    """A call with its predicate of truth values as bytes, which instructions take."""
    for arg in call.args:
        seen = types.facts.seen(arg.node) if arg.name == "predicate" and arg.node is not None else None
        if seen is not None and seen.dtype == "bool":
            return call.with_texts({"predicate": f"{arg.text}.view(nl.uint8)"})
    return call


def trailing_axes(
    types: Types, node: ast.Call, call: NewCall, order: tuple[str, ...] = ("x", "axis"), x: str = "x"
) -> NewCall:
    """A reduction of dimensions that are not the last: of a view in which they are, in the same order.

    ``order`` are the parameters of the function by position, ``x`` is the one that is reduced.
    """
    named = arguments(node, order)
    keeps = "keepdims" in named and one_line(named["keepdims"]) != "False"
    if x not in named or "axis" not in named or keeps:
        return call
    axis, tensor = named["axis"], types.tensor(named[x])
    numbers = axis.elts if isinstance(axis, ast.List | ast.Tuple) else [axis]
    words = [one_line(number) for number in numbers]
    if tensor is None or tensor.shape is None or not words or not all(word.isdigit() for word in words):
        return call
    rank, axes = len(tensor.shape), sorted(int(word) for word in words)
    kept = [axis for axis in range(rank) if axis not in axes]
    last = list(range(rank - len(axes), rank))
    if axes == last or 0 in axes:
        return call
    view = f"{call.by_name(order)[x]}.permute({(*kept, *axes)})"
    return call.with_texts({x: view, "axis": str(last)}, order)


def varying(facts: Facts, left: ast.expr, right: ast.expr, x: str, y: str) -> tuple[str, str]:
    """The code of two operands with shapes that differ from run to run: each is repeated to the sizes of both."""
    one, other = facts.tensors.get(id(left)), facts.tensors.get(id(right))
    if one is None or other is None or len(one.shape) != len(other.shape) or one.shape == other.shape:
        return x, y
    if not (x.isidentifier() and y.isidentifier()):
        return x, y
    sizes = [f"{y if a == 1 else x}.shape[{k}]" for k, (a, _) in enumerate(zip(one.shape, other.shape, strict=True))]
    shape = f"({', '.join(sizes)})"
    smaller = [any(a == 1 != b for a, b in zip(*pair, strict=True)) for pair in ((one.shape, other.shape),
               (other.shape, one.shape))]  # fmt: skip
    return f"nl.broadcast_to({x}, {shape})" if smaller[0] else x, f"nl.broadcast_to({y}, {shape})" if smaller[1] else y


def operand_mask(types: Types, node: ast.Subscript) -> ast.expr | None:
    """The mask in ``tile[mask]``; None for other subscripts."""
    return node.slice if isinstance(types.value(node.slice), Mask) else None


def groups_in(types: Types, statement: ast.stmt) -> tuple[Group, ...]:
    """The groups that stand in all tensors of a statement, which may treat each as one axis; () if there are none."""
    match statement:
        case ast.Assign(targets=[ast.Subscript()]) | ast.Expr(value=ast.Call()):
            found = _Operands(types)
            found.visit(statement)
        case _:
            return ()
    sets = {frozenset(groups) for groups in found.groups}
    return tuple(sorted(next(iter(sets)), key=lambda group: group[0].axis)) if len(sets) == 1 and found.alike else ()


class _Operands(ast.NodeVisitor):
    """The groups of each tensor in a statement; ``alike`` as long as nothing in it depends on more than elements."""

    def __init__(self, types: Types) -> None:
        self.types = types
        self.alike = True
        self.groups: list[list[Group]] = []

    def visit_Call(self, node: ast.Call) -> None:
        masked = any(k.arg == "mask" for k in node.keywords)
        self.alike &= self.types.names.full(node.func) in ALIKE and not masked
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.alike &= self.types.tensor(node) is None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """An attribute of a tensor is none of its elements."""

    def visit_Subscript(self, node: ast.Subscript) -> None:
        groups: list[Group] = []
        alone: list[Variable] = []
        for key in keys_of(node):
            index = self.types.index(key)
            if index is None:
                continue
            group = group_of(index) if len(index.steps) > 1 else None
            self.alike &= group is not None or len(index.steps) <= 1
            groups += [group] if group is not None else []
            alone += [variable for variable, _ in index.steps] if group is None else []
        self.alike &= not any(variable in group for group in groups for variable in alone)
        self.groups.append(groups)


def is_number(node: ast.expr) -> bool:
    """True for a number that is written out."""
    if isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def target_shape(one: Tensor, other: Tensor, shape: tuple[Any, ...]) -> str:
    """The code of ``shape``, to which one of two tiles is repeated."""
    if shape == one.shape and one.name:
        return f"{one.name}.shape"
    if shape == other.shape and other.name:
        return f"{other.name}.shape"
    return shape_text(shape)


def matmul_operands(call: NewCall) -> tuple[str, str, bool]:
    """The operands of ``nl.matmul(x, y, transpose_x=…)`` as code, and whether x is transposed."""
    named = call.by_name(("x", "y", "transpose_x"))
    return named["x"], named["y"], named.get("transpose_x") == "True"


def allocated(types: Types, call: ast.Call, function: str, tensor: Tensor) -> tuple[str | None, list[str]]:
    """The address that an allocator of Beta 1 gave to a tile, and the names of the block dimensions in it.

    "" for a memory alone, None for an address that the source does not tell.
    """
    unnamed = ["_"] * len(tensor.blocks)
    given = next((k.value for k in call.keywords if k.arg == "buffer"), None)
    given = types.allocators.get(given.id, given) if isinstance(given, ast.Name) else given
    full = types.names.full(given.func) if isinstance(given, ast.Call) else ""
    if not isinstance(given, ast.Call) or not full.endswith(("mod_alloc", ".alloc")):
        return "", unnamed
    if function != "ndarray" or tensor.shape is None or not tensor.dtype:
        return None, unnamed
    names = block_indices(names_in(call), len(tensor.blocks))
    found = address(given, full, names, [size.text for size in tensor.shape], itemsize(tensor.dtype))
    return found, names if found is not None else unnamed


def variables_in(types: Types, *nodes: ast.AST) -> list[Variable]:
    """The variables of all index tiles inside of nodes."""
    found: list[Variable] = []
    for node in nodes:
        for part in ast.walk(node):
            for key in keys_of(part) if isinstance(part, ast.Subscript) else ():
                index = types.index(key)
                found += [variable for variable, _ in index.steps] if index is not None else []
    return list(dict.fromkeys(found))


__all__ = [
    "allocated", "as_bytes", "groups_in", "is_number", "matmul_operands", "operand_mask", "target_shape",
    "trailing_axes", "variables_in", "varying",
]  # fmt: skip
