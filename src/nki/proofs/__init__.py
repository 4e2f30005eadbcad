"""Proofs that two kernels compute the same function, and inputs that show that they do not."""
