"""Concrete syntax of Python files: names, imports, code of nodes, layout; nothing about tensors."""
