"""Statements of NKI Beta 1, rewritten for the present NKI with the user's names and layout."""
