"""Kernels that other kernels of a file call: they lose their decorator, and host code applies it at its own calls."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import libcst as cst
from libcst.metadata import ExpressionContext, ExpressionContextProvider, MetadataWrapper

from nki.migrate.syntax.code import expression
from nki.migrate.syntax.names import LAUNCHERS, Names, names_in


class Roles:
    """The functions at the top of a file by their use; ``kernels`` are launched without a decorator."""

    def __init__(self, module: cst.Module, names: Names, kernels: AbstractSet[str]) -> None:
        functions = {node.name.value: node for node in module.body if isinstance(node, cst.FunctionDef)}
        decorated = {name for name, node in functions.items() if any(_launches(one, names) for one in node.decorators)}
        self.on_device: set[str] = set()
        """Kernels, and what they call."""
        called: set[str] = set()
        waiting = [name for name in functions if name in decorated | kernels]
        while waiting:
            name = waiting.pop()
            if name not in self.on_device:
                self.on_device.add(name)
                inner = names_in(functions[name].body) & functions.keys() - {name}
                called |= inner
                waiting += inner
        self.undecorated = called & decorated
        """Kernels that kernels call."""
        host = [line for line in module.body if not self.is_on_device(line)]
        self.named_by_host = {name for line in host for name in names_in(line)} & decorated

    def is_on_device(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.FunctionDef) and node.name.value in self.on_device


def _launches(node: cst.Decorator, names: Names) -> bool:
    called = node.decorator.func if isinstance(node.decorator, cst.Call) else node.decorator
    return names.full(called) in LAUNCHERS | {"torch_neuronx.nki_jit"}


def decorated_at_calls(module: cst.Module, roles: Roles, names: Names) -> cst.Module:
    """The file, with ``nki.jit(kernel)`` where its host code has the name of a kernel without decorator."""
    if not roles.undecorated & roles.named_by_host:
        return module
    return MetadataWrapper(module).visit(_HostCode(roles, names))


class _HostCode(cst.CSTTransformer):
    """Applies the decorator wherever host code uses the name of a kernel as a value."""

    METADATA_DEPENDENCIES = (ExpressionContextProvider,)

    def __init__(self, roles: Roles, names: Names) -> None:
        super().__init__()
        self.roles = roles
        self.names = names
        self.jit = names.alias("nki.jit") or "nki.jit"

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        return not self.roles.is_on_device(node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if original_node.value not in self.roles.undecorated:
            return updated_node
        if self.get_metadata(ExpressionContextProvider, original_node, None) is not ExpressionContext.LOAD:
            return updated_node
        return expression(f"{self.jit}({original_node.value})")

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        made = self.names.full(original_node.func) == "nki.jit"
        return updated_node.with_changes(args=original_node.args) if made else updated_node


__all__ = ["Roles", "decorated_at_calls"]
