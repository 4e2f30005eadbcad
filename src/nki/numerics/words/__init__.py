"""Products of words, two bfloat16 numbers each, by instructions of processors, and the packing of their operands."""
