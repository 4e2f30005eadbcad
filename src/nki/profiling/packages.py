"""Packages that only some files and searches need: the extras ``profile`` and ``tune``."""

from __future__ import annotations

from typing import Any

from nki.base.locks import imported
from nki.base.profile_errors import MissingPackageError


def needed(module: str, package: str, use: str, extra: str = "profile") -> Any:
    """The module, imported now.

    Raises :class:`MissingPackageError` that says what ``use`` needs ``package`` for, and how to install it: by itself,
    or with the ``extra`` of this package.
    """
    try:
        return imported(module)
    except ImportError as error:
        raise MissingPackageError(
            f"{use} needs the package {package}: {error}",
            fix=f"pip install {package}" + (f", or pip install 'open-nki[{extra}]'" if extra else ""),
        ) from None
