"""Fusion: neighbouring instructions become one routine; results pass in registers or the first-level cache."""
