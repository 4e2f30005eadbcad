"""Proofs: are two kernels the same function over the real numbers, for all inputs of given shapes (``docs/proofs.md``)?"""
