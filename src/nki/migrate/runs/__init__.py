"""Runs of a file before and after its migration: facts about the old one, the numbers of both."""
