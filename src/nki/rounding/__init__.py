"""``nki.accuracy``: where the digits of a kernel's results go (``docs/accuracy.md``)."""
