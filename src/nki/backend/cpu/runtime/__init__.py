"""Linking routines to a launch table, memory of a launch, and the launch itself."""
