"""Modules inside the vendor's compiler that public programs import, and that have no counterpart here."""

from __future__ import annotations

from typing import NoReturn

from nki.compilation.launch_errors import VendorModuleError


def refuse(module: str, meaning: str, fix: str) -> NoReturn:
    """Raise :class:`VendorModuleError` for the import of ``module``, which is ``meaning``."""
    raise VendorModuleError(f"{module} is {meaning}; Open NKI has none", fix=fix)
