"""What Open NKI has beside ``nki``: :mod:`open_nki.shims`."""
