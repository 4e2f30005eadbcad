"""Shadow values: beside each element that a program computes, what another arithmetic has for it.

An executor with shadows is the NumPy executor with values and a memory that carry them along; an arithmetic (random
fields, balls, float64) says what a primitive does to them. The words are N. Nethercote and J. Seward's ("How to shadow
every byte of memory used by a program", 2007).
"""
