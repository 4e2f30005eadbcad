"""Compiled kernels on disk, keyed by everything that they depend on."""
