"""NKI Beta 1 as a dialect: the names of ``neuronxcc.nki`` lowered to the instructions of ``nki.isa``."""
