"""Compiled kernels on disk, keyed by all that they depend on."""
