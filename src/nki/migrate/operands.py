"""Operands of expressions as source text."""

from __future__ import annotations

import ast
from typing import Any, Final

import libcst as cst

from nki.language.advice.beta1.addresses import address, block_indices
from nki.language.advice.beta1.allocations import itemsize
from nki.migrate.dense import Group, group_of
from nki.migrate.facts import Facts, Tensor, shape_text
from nki.migrate.indices import Index, Mask, Variable
from nki.migrate.syntax.code import expression, one_line
from nki.migrate.syntax.names import names_in
from nki.migrate.types import BINARY, ELEMENTWISE, Types, arguments

_ALIKE: Final = {
    *(f"nki.language.{name}" for name in {"load", "store", *ELEMENTWISE, *BINARY} - {"softmax", "rms_norm"}),
    "nki.isa.dma_copy", "nki.isa.tensor_copy", "nki.isa.activation", "nki.isa.reciprocal",
}  # fmt: skip
"""Functions of which each element of the result comes from the elements in the same place."""


def bare(node: cst.BaseExpression) -> str:
    """The code of an operand as an argument: without parentheses of its own."""
    return one_line(node.with_changes(lpar=[], rpar=[]))


def as_bytes(types: Types, original: cst.Call, updated: cst.Call) -> cst.Call:
    """A call with its predicate of truth values as bytes, which instructions take."""
    args: list[cst.Arg] = []
    for before, after in zip(original.args, updated.args, strict=True):
        seen = types.facts.seen(before.value)
        if (
            after.keyword is not None
            and after.keyword.value == "predicate"
            and seen is not None
            and seen.dtype == "bool"
        ):
            after = after.with_changes(value=expression(f"{one_line(after.value)}.view(nl.uint8)"))
        args.append(after)
    return updated.with_changes(args=args)


def trailing_axes(
    types: Types, original: cst.Call, updated: cst.Call, order: tuple[str, ...] = ("x", "axis"), x: str = "x"
) -> cst.Call:
    """A reduction of dimensions that are not the last: of a view in which they are, in the same order.

    ``order`` are the parameters of the function by position, ``x`` is the one that is reduced.
    """
    named, then = arguments(original, order), arguments(updated, order)
    keeps = "keepdims" in named and one_line(named["keepdims"].value) != "False"
    if x not in named or "axis" not in named or keeps or not isinstance(
        named["axis"].value, cst.List | cst.Tuple | cst.Integer
    ):  # fmt: skip
        return updated
    tensor, text = types.tensor(named[x].value), one_line(named["axis"].value)
    words = [word for word in text.strip("[]()").replace(" ", "").split(",") if word]
    if tensor is None or tensor.shape is None or not all(word.isdigit() for word in words):
        return updated
    rank, axes = len(tensor.shape), sorted(int(word) for word in words)
    kept = [axis for axis in range(rank) if axis not in axes]
    if not axes or axes == list(range(rank - len(axes), rank)) or 0 in axes:
        return updated
    view = expression(f"{one_line(then[x].value)}.permute({(*kept, *axes)})")
    last = expression(str(list(range(rank - len(axes), rank))))
    new = {id(then[x]): view, id(then["axis"]): last}
    args = [arg.with_changes(value=new[id(arg)]) if id(arg) in new else arg for arg in updated.args]
    return updated.with_changes(args=args)


def varying(facts: Facts, left: cst.BaseExpression, right: cst.BaseExpression, x: str, y: str) -> tuple[str, str]:
    """The code of two operands whose shapes differ from run to run: each is repeated to the sizes of both."""
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


def operand_mask(types: Types, node: cst.Subscript) -> cst.BaseExpression | None:
    """The mask in ``tile[mask]``; None for other subscripts."""
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=value))] if isinstance(types.value(value), Mask):
            return value
        case _:
            return None


def groups_in(types: Types, small: cst.BaseSmallStatement) -> tuple[Group, ...]:
    """The groups that stand in all tensors of a statement, which may treat each as one axis; () if there are none."""
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript())]) | cst.Expr(value=cst.Call()):
            found = _Operands(types)
            small.visit(found)
        case _:
            return ()
    sets = {frozenset(groups) for groups in found.groups}
    return tuple(sorted(next(iter(sets)), key=lambda group: group[0].axis)) if len(sets) == 1 and found.alike else ()


class _Operands(cst.CSTVisitor):
    """The groups of each tensor in a statement; ``alike`` as long as nothing in it depends on more than elements."""

    def __init__(self, types: Types) -> None:
        super().__init__()
        self.types = types
        self.alike = True
        self.groups: list[list[Group]] = []

    def visit_Call(self, node: cst.Call) -> None:
        full = self.types.names.full(node.func)
        masked = any(arg.keyword is not None and arg.keyword.value == "mask" for arg in node.args)
        self.alike &= full in _ALIKE and not masked

    def visit_Name(self, node: cst.Name) -> None:
        self.alike &= self.types.tensor(node) is None

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: ARG002
        return False

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        groups: list[Group] = []
        alone: list[Variable] = []
        for element in node.slice:
            value: Any = self.types.value(element.slice.value) if isinstance(element.slice, cst.Index) else None
            group = group_of(value) if isinstance(value, Index) and len(value.steps) > 1 else None
            if isinstance(value, Index) and len(value.steps) > 1:
                self.alike &= group is not None
            groups += [group] if group is not None else []
            alone += [variable for variable, _ in value.steps] if isinstance(value, Index) and group is None else []
        self.alike &= not any(variable in group for group in groups for variable in alone)
        self.groups.append(groups)
        return False


def is_number(node: cst.BaseExpression) -> bool:
    """True for a number that is written out."""
    return isinstance(node, cst.Integer | cst.Float) or (
        isinstance(node, cst.UnaryOperation) and isinstance(node.expression, cst.Integer | cst.Float)
    )


def target_shape(one: Tensor, other: Tensor, shape: tuple[Any, ...]) -> str:
    """The code of ``shape``, to which one of two tiles is repeated."""
    if shape == one.shape and one.name:
        return f"{one.name}.shape"
    if shape == other.shape and other.name:
        return f"{other.name}.shape"
    return shape_text(shape)


def matmul_operands(call: cst.Call) -> tuple[str, str, bool]:
    """The operands of ``nl.matmul(x, y, transpose_x=…)`` as code, and whether x is transposed."""
    named = arguments(call, ("x", "y", "transpose_x"))
    turned = "transpose_x" in named and one_line(named["transpose_x"].value) == "True"
    return one_line(named["x"].value), one_line(named["y"].value), turned


def allocated(types: Types, call: cst.Call, function: str, tensor: Tensor | None) -> tuple[str | None, list[str]]:
    """The address that an allocator of Beta 1 gave to a tile, and the names of the block dimensions in it.

    "" for a memory alone, None for an address that the source does not tell.
    """
    unnamed = ["_"] * len(tensor.blocks) if tensor is not None else []
    given = next((arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "buffer"), None)
    given = types.allocators.get(given.value, given) if isinstance(given, cst.Name) else given
    full = types.names.full(given.func) if isinstance(given, cst.Call) else ""
    if given is None or not full.endswith(("mod_alloc", ".alloc")):
        return "", unnamed
    if function != "ndarray" or tensor is None or tensor.shape is None or not tensor.dtype:
        return None, unnamed
    names = block_indices(names_in(call), len(tensor.blocks))
    node: Any = ast.parse(one_line(given), mode="eval").body
    found = address(node, full, names, [size.text for size in tensor.shape], itemsize(tensor.dtype))
    return found, names if found is not None else unnamed


def variables_in(types: Types, node: cst.CSTNode) -> list[Variable]:
    """The variables of all index tiles inside ``node``."""
    found: list[Variable] = []

    class _Subscripts(cst.CSTVisitor):
        def visit_Subscript(self, node: cst.Subscript) -> None:
            for element in node.slice:
                if isinstance(element.slice, cst.Index):
                    value = types.value(element.slice.value)
                    if isinstance(value, Index):
                        found.extend(variable for variable, _ in value.steps)

    node.visit(_Subscripts())
    return list(dict.fromkeys(found))


__all__ = [
    "allocated",
    "as_bytes",
    "bare",
    "groups_in",
    "is_number",
    "matmul_operands",
    "operand_mask",
    "target_shape",
    "trailing_axes",
    "variables_in",
    "varying",
]
