"""From a Python function to recorded instructions: capture, check, rewrite, specialise."""
