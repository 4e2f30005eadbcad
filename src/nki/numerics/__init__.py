"""Compiled kernels that both executors call: activation functions, matrix product, transpose, top 8."""
