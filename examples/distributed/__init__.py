"""Kernels of several ranks: parallel layers, ring attention and experts, each one file."""
