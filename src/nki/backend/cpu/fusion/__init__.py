"""Fusion: neighbouring element-wise instructions become one routine with one loop."""
