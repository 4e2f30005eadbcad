"""Machines that run scheduled kernels."""
