"""``nki.compiler.config``: the classes of ``nki.compiler`` under their longer name."""

from nki.compilation.config import AddressRotation, CompileConfig, SpecializationConfig

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]
