"""Statements of NKI Beta 1 as those of the present NKI, with the user's names and layout."""
