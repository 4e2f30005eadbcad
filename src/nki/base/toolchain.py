"""Membership test for the toolchain's own code: the packages of this distribution and of registered dialects."""

from __future__ import annotations

import os
import types
from typing import Any

_packages: tuple[str, ...] = ("nki",)
"""Names of packages, dotted where the package lies in another."""
_folders: tuple[str, ...] = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,)
"""Their folders, each with a separator at its end: a prefix of every file."""

user_code: dict[int, types.CodeType] = {}
"""Code of other files that was met, by id; it stays alive here, so that no other code gets the id."""


def add_package(name: str, folder: str) -> None:
    """Count the package ``name`` with its modules in ``folder`` as the toolchain's."""
    global _packages, _folders  # rebound and not changed: readers on other threads see all or nothing
    if name not in _packages:
        _packages = (*_packages, name)
        _folders = (*_folders, os.path.abspath(folder) + os.sep)
        user_code.clear()


def is_toolchain(value: Any) -> bool:
    """True for a code object of a file of ours, a module of ours, and everything that such a module defines."""
    if isinstance(value, types.CodeType):
        return value.co_filename.startswith(_folders)
    module = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return isinstance(module, str) and is_toolchain_module(module)


def is_toolchain_module(name: str) -> bool:
    """True for the name of a module of ours, imported or not."""
    return any(name == package or name.startswith(package + ".") for package in _packages)
