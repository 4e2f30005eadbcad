"""Descriptions of instructions, rules and errors, for the command line, the reference and tests."""
