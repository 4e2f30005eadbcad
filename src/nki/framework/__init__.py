"""``nki.framework``: kernels as objects, as public harnesses import them (``docs/harnesses.md``)."""
