"""The meaning of names in a file: which of them are NKI's, NumPy's or a bridge's, in the words of the present NKI."""

from __future__ import annotations

import ast
from typing import Final

ROOTS: Final = ("neuronxcc", "nki", "numpy", "torch_neuronx", "jax_neuronx")
"""Packages with names that matter here."""

LAUNCHERS: Final = {f"nki.{name}" for name in ("jit", "trace", "simulate_kernel", "baremetal", "benchmark", "profile")}
"""Functions that make kernels or run them."""


def normal(full: str) -> str:
    """The full name without the package of Beta 1: ``neuronxcc.nki.language`` is ``nki.language``."""
    return full.removeprefix("neuronxcc.") if full.startswith("neuronxcc.nki") else full


class Names:
    """The names of packages, modules and functions; ``bound`` has the full name of each."""

    def __init__(self, bound: dict[str, str] | None = None) -> None:
        self.bound = bound if bound is not None else dict[str, str]()
        self.beta1 = False

    @classmethod
    def of(cls, tree: ast.AST) -> Names:
        """The names that a file's imports bind, at any depth."""
        names = cls()
        for node in ast.walk(tree):
            match node:
                case ast.Import() | ast.ImportFrom():
                    names.learn(node)
                case _:
                    pass
        for node in ast.walk(tree):
            match node:  # ``simulate_kernel = nki.simulate_kernel`` and the like
                case ast.Assign(targets=[ast.Name(id=name), *_], value=value) if names.full(value) in LAUNCHERS:
                    names.bound[name] = names.full(value)
                case _:
                    pass
        return names

    def learn(self, node: ast.Import | ast.ImportFrom) -> None:
        """Take in an import."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                self._bind(alias.asname or root, alias.name if alias.asname else root)
                self.beta1 |= alias.name.startswith("neuronxcc.nki")
        elif node.module is not None and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                self._bind(alias.asname or alias.name, full)
                self.beta1 |= full.startswith("neuronxcc.nki") or full == "torch_neuronx.nki_jit"

    def _bind(self, name: str, full: str) -> None:
        if full.split(".")[0] in ROOTS and name != "*":
            self.bound[name] = normal(full)

    def full(self, node: ast.AST) -> str:
        """The full name that ``nl.arange`` and the like stand for; "" for other expressions."""
        match node:
            case ast.Name(id=name):
                return self.bound.get(name, "")
            case ast.Attribute(value=owner, attr=name):
                above = self.full(owner)
                return normal(f"{above}.{name}") if above else ""
            case _:
                return ""

    def alias(self, full: str) -> str:
        """The name under which the file knows a module or function; "" if it does not."""
        return next((name for name, known in self.bound.items() if known == full), "")


def imports_nki(node: ast.Import | ast.ImportFrom) -> bool:
    """True for an import of a package of NKI's or of a bridge."""
    if isinstance(node, ast.ImportFrom):
        modules = [node.module] if node.module is not None and not node.level else []
    else:
        modules = [alias.name for alias in node.names]
    return any(module.split(".")[0] in ROOTS and module != "numpy" for module in modules)


def called(node: ast.expr) -> ast.expr:
    """The function of a call; other expressions as they are."""
    return node.func if isinstance(node, ast.Call) else node


__all__ = ["LAUNCHERS", "Names", "called", "imports_nki", "normal"]
