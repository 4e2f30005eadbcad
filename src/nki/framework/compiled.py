"""``nki.framework.compiled``: kernels that compile and run outside of a framework (``docs/harnesses.md``)."""

from nki.harness.compilation import CompiledKernel, compile_bir_to_neff, compile_to_bir
from nki.harness.standalone import CompileKernel, StandaloneKernel, compile_kernel_to_nir, run_from_bir

__all__ = [
    "CompileKernel",
    "CompiledKernel",
    "StandaloneKernel",
    "compile_bir_to_neff",
    "compile_kernel_to_nir",
    "compile_to_bir",
    "run_from_bir",
]
