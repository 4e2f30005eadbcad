"""One kernel per instruction, with the name of the instruction.

``ARGUMENTS`` of each module maps a kernel to example arguments as ``nki run --arg`` takes them; ``CORES`` maps it to
the number of cores if that is not 1. The reference pages and ``nki explain`` show these kernels.
"""
