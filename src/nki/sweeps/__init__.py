"""``nki.sweep`` and ``nki.tune``: a kernel at all points of a space, and the best of them (``docs/sweep.md``)."""
