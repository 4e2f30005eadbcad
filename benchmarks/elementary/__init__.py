"""Kernels of few instructions against PyTorch: row-wise functions, movements, small products."""

from benchmarks.elementary.measure import rows

__all__ = ["rows"]
