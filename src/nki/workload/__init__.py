"""Kernels named by text, and their arguments: tensors by shape, dtype and filling, files, constants."""
