"""Indirect views: runtime indices, gather offsets and the gather-compute-scatter form of an instruction."""
