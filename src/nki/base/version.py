"""The version that every error report, dump and artifact carries."""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("open-nki")
except metadata.PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0.0.0+uninstalled"
