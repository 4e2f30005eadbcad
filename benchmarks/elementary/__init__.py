"""Kernels of few instructions against PyTorch: row-wise functions, movements, small products."""
