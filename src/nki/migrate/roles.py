"""The functions of a file by their use: kernels, what kernels call, and the grids on which host code launches them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nki.frontend.site import keys_of
from nki.language.beta1_rewriting.functions import Roles
from nki.source_text.names import LAUNCHERS, Names, called
from nki.source_text.source import code_of, names_in, one_line

_MAKERS = ("nki.jit", "nki.simulate_kernel", "nki.baremetal", "nki.benchmark", "torch_neuronx.nki_jit",
           "jax_neuronx.nki_call")  # fmt: skip
"""Functions that make a kernel of their first argument."""


def roles_of(tree: ast.Module, names: Names, kernels: Sequence[str]) -> Roles:
    """The roles of the functions of a file; ``kernels`` are launched without a decorator."""
    launched, grids = _launches(tree, names)
    launched |= set(kernels)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    decorated = {
        name for name, node in functions.items()
        if any(names.full(called(one)) in LAUNCHERS | {"torch_neuronx.nki_jit"} for one in node.decorator_list)
    }  # fmt: skip
    on_device, inner = set[str](), set[str]()
    waiting = [name for name in functions if name in decorated | launched]
    while waiting:
        name = waiting.pop()
        if name not in on_device:
            on_device.add(name)
            used = names_in(*functions[name].body) & functions.keys() - {name}
            inner |= used
            waiting += used
    host = [line for line in tree.body if not (isinstance(line, ast.FunctionDef) and line.name in on_device)]
    return Roles(launched, on_device, inner & decorated, names_in(*host) & decorated, grids)


def _launches(tree: ast.Module, names: Names) -> tuple[set[str], dict[str, str]]:
    """The functions that calls make kernels, and the literal grids on which a file launches kernels."""
    made: set[str] = set()
    grids: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=function, args=[first, *_]) if names.full(function) in _MAKERS:
                made.add(one_line(first.value if isinstance(first, ast.Subscript) else first))
            case ast.Subscript(value=ast.Name(id=name)) if name not in grids:
                text = grid_text(node)
                if text is not None and all(c.isdigit() or c in "(), *" for c in text):
                    grids[name] = text
            case _:
                pass
    return made, grids


def grid_text(node: ast.Subscript) -> str | None:
    """The grid ``[16, nl.nc(2)]`` as a tuple of sizes; None if it is a slice."""
    keys = keys_of(node)
    if any(isinstance(key, ast.Slice) for key in keys):
        return None
    return f"({', '.join(map(_size, keys))}{',' if len(keys) == 1 else ''})"


def _size(node: ast.expr) -> str:
    """The number of programs along one axis."""
    match node:
        case ast.Call(func=function, args=[size, *_]) if code_of(function).split(".")[-1] == "nc":
            return one_line(size)
        case ast.Call(func=function, args=args) if code_of(function).split(".")[-1] == "spmd_dim":
            return " * ".join(map(_size, args))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return f"{_size(left)} * {_size(right)}"
        case _:
            return one_line(node)


__all__ = ["grid_text", "roles_of"]
