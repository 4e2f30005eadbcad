"""``nki.compiler.ncc_driver``: an entry point of harnesses in this package (``docs/harnesses.md``)."""

from nki.harness.compilation import (
    CompilationMode,
    CompiledKernel,
    CompileOptions,
    compile_bir_to_neff,
    compile_mlir_to_neff,
    extract_perf_metrics,
)

__all__ = [
    "CompilationMode",
    "CompileOptions",
    "CompiledKernel",
    "compile_bir_to_neff",
    "compile_mlir_to_neff",
    "extract_perf_metrics",
]
