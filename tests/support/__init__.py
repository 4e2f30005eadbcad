"""Modules that the tests of several folders share, each named after the thing that it holds."""
