"""Floats that launches pass to kernels."""
