"""``nki migrate``: kernels of older NKI rewritten for the present one, and the proof that they compute the same."""
