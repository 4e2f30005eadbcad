"""``nki.compiler.config``: the classes of ``nki.compiler`` under their longer name."""

from nki.compilation.vendor_options import AddressRotation, CompileConfig, SpecializationConfig

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]
