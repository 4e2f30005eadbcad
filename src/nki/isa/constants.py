"""The enumerations of ``nki.isa`` under the module name by which kernels of NKI 0.2 and 0.3 import them."""

from __future__ import annotations

from nki.isa.tables.enums import dge_mode, dma_engine, engine, matmul_perf_mode, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "dma_engine", "engine", "matmul_perf_mode", "nc_version", "oob_mode", "reduce_cmd"]
