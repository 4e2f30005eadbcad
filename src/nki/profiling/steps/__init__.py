"""Profiles of a whole step: the kernels that a function of a framework launches, and what it does between them."""
