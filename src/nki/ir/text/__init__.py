"""The text form of a program and its binary artifact."""
