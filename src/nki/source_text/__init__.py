"""Kernels as source text: names, statements with their layout, and the arithmetic of indices, for tools that edit."""
