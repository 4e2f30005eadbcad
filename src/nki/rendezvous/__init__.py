"""Meetings of the cores of a launch: exchanges and barriers among n participants."""
