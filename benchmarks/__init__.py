"""Measurements, each against something that does the same work in the same run. ``python -m benchmarks`` prints all."""
