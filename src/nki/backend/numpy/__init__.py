"""The NumPy executor."""
