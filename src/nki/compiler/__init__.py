"""``nki.compiler``: classes of options of ``nki.jit``, and modules that harnesses import (``docs/harnesses.md``)."""

from nki.compilation.vendor_options import AddressRotation, CompileConfig, SpecializationConfig

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]
