"""The meaning of names in a file: which of them are NKI's, NumPy's or a bridge's, in the words of the present NKI."""

from __future__ import annotations

from typing import Final

import libcst as cst

from nki.migrate.syntax.code import code_of

ROOTS: Final = {
    "neuronxcc.nki": "nki",
    "neuronxcc": "neuronxcc",
    "nki": "nki",
    "numpy": "numpy",
    "torch_neuronx": "torch_neuronx",
    "jax_neuronx": "jax_neuronx",
}
"""Packages whose names matter here, and how this module names them."""

LAUNCHERS: Final = {f"nki.{name}" for name in ("jit", "trace", "simulate_kernel", "baremetal", "benchmark", "profile")}
"""Functions that make kernels or run them."""


def normal(full: str) -> str:
    """The full name without the package of Beta 1: ``neuronxcc.nki.language`` is ``nki.language``."""
    return full.removeprefix("neuronxcc.") if full.startswith("neuronxcc.nki") else full


class Names(cst.CSTVisitor):
    """The names that a file's imports bind, at any depth."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: dict[str, str] = {}
        self.beta1 = False

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            full = code_of(alias.name)
            if alias.asname is not None:
                self._bind(code_of(alias.asname.name), full)
            else:
                self._bind(full.split(".")[0], full.split(".")[0])
            self.beta1 |= full.startswith("neuronxcc.nki")

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        if node.module is None or node.relative or isinstance(node.names, cst.ImportStar):
            return
        module = code_of(node.module)
        for alias in node.names:
            name = code_of(alias.name)
            bound = code_of(alias.asname.name) if alias.asname is not None else name
            self._bind(bound, f"{module}.{name}")
        self.beta1 |= module.startswith("neuronxcc.nki") or (
            module == "neuronxcc" and any(code_of(alias.name) == "nki" for alias in node.names)
        )
        self.beta1 |= module == "torch_neuronx" and any(code_of(alias.name) == "nki_jit" for alias in node.names)

    def visit_Assign(self, node: cst.Assign) -> None:
        """``simulate_kernel = nki.simulate_kernel`` and the like."""
        target, full = node.targets[0].target, self.full(node.value)
        if isinstance(target, cst.Name) and full in LAUNCHERS:
            self.bound[target.value] = full

    def _bind(self, name: str, full: str) -> None:
        if full.split(".")[0] in ROOTS:
            self.bound[name] = normal(full)

    def full(self, node: cst.BaseExpression) -> str:
        """The full name that ``nl.arange`` and the like stand for; "" for other expressions."""
        match node:
            case cst.Name(value=name):
                return self.bound.get(name, "")
            case cst.Attribute(value=owner, attr=cst.Name(value=name)):
                above = self.full(owner)
                return normal(f"{above}.{name}") if above else ""
            case _:
                return ""

    def alias(self, full: str) -> str:
        """The name under which the file knows a module or function; "" if it does not."""
        return next((name for name, known in self.bound.items() if known == full), "")


def imports_nki(small: cst.Import | cst.ImportFrom) -> bool:
    """True for an import of a package of NKI's or of a bridge."""
    if isinstance(small, cst.ImportFrom):
        modules = [code_of(small.module)] if small.module is not None and not small.relative else []
    else:
        modules = [code_of(alias.name) for alias in small.names]
    return any(module.split(".")[0] in ROOTS and module != "numpy" for module in modules)


class _NamesIn(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)


def names_in(node: cst.CSTNode) -> set[str]:
    """All names inside ``node``."""
    found = _NamesIn()
    node.visit(found)
    return found.names


__all__ = ["Names", "imports_nki", "names_in", "normal"]
