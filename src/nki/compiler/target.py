"""``nki.compiler.target``: an entry point of harnesses in this package (``docs/harnesses.md``)."""

from nki.harness.targets import resolve_target, target_to_nc_version

__all__ = ["resolve_target", "target_to_nc_version"]
