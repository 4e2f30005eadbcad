"""Proofs that two kernels are the same function over the real numbers, for all inputs of given shapes."""
