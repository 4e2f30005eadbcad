"""Executors: NumPy (``reference``) and native code (``cpu``)."""
