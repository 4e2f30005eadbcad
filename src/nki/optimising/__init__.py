"""``nki.optimise``: advice of the profile as edits of the source, each kept only if it is proved and worth it."""
