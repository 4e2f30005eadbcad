"""Kernels that are the same function, kernels that nearly are, and what a proof has to say of them."""
