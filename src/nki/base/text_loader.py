"""Modules of files that users edit: what runs is the text as it is now."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType


class TextLoader(SourceFileLoader):
    """Compiles the text of a file each time.

    Python's own loader takes the bytecode of an older text if both have the same size and the same second. An edit
    such as 1.0 to 2.0 right behind a run would be lost. Nothing is written beside the file, either.
    """

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002  # the signature is Python's
        return self.source_to_code(self.get_data(self.path), self.path)


def spec_of(name: str, path: Path, package: list[str] | None = None) -> ModuleSpec | None:
    """The specification of the module ``name`` in the Python file ``path``; None if it is no Python file.

    ``package``: the folders of its own modules, if it is a package.
    """
    if path.suffix != ".py":
        return None
    loader = TextLoader(name, str(path))
    return importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=package)


__all__ = ["TextLoader", "spec_of"]
