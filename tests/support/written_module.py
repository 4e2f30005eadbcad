"""Modules of text, each in a file of its own: source of kernels that a test makes up."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def written(text: str, file: Path) -> Any:
    """Write ``text`` to ``file`` and import it."""
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"written_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
