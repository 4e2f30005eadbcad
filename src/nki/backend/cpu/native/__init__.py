"""Native code that no kernel changes: its C text, and the Python that calls it."""
