"""Foundations without any knowledge of kernels: source positions, errors, dtypes, version."""
