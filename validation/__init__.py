"""Validation of the timing model: published times of kernels, and of single instructions, against predictions.

``make validate`` writes docs/validation.md.
"""
