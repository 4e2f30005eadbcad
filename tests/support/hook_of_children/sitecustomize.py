"""Loads :mod:`tests.support.repetition` in a Python process that a watched test has started, when it imports NKI.

``tests.support.repeated_launches`` puts this folder into ``PYTHONPATH``. Python imports the module at its start, so it
imports nothing that programs could miss: neither NumPy nor NKI.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

WATCHED = "nki.backend.cpu.runtime.launch"
FOLDER = os.environ.get("NKI_REPEAT_FOLDER", "")


class Watching(Loader):
    """Loads the module with the launches, then what repeats them."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> Any:
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        self.loader.exec_module(module)
        path = Path(__file__).parents[1] / "repetition.py"
        spec = importlib.util.spec_from_file_location("tests.support.repetition", path)
        assert spec is not None and spec.loader is not None
        repetition = sys.modules["tests.support.repetition"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(repetition)
        repetition.watch_child(FOLDER)


class Finder(MetaPathFinder):
    """Finds the module with the launches, once."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != WATCHED:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = Watching(spec.loader)
        return spec


if FOLDER:
    sys.meta_path.insert(0, Finder())
    with open(os.path.join(FOLDER, f"{os.getpid()}.started"), "w", encoding="utf-8") as file:
        json.dump(sys.orig_argv, file)
