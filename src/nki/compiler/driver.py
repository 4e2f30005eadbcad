"""``nki.compiler.driver``: an entry point of harnesses in this package (``docs/harnesses.md``)."""

from nki.harness.compilation import compile_bir_to_neff, compile_to_bir
from nki.harness.compilation import write_nir as _compile_bir_to_neff

__all__ = ["_compile_bir_to_neff", "compile_bir_to_neff", "compile_to_bir"]
