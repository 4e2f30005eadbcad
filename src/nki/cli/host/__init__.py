"""Host code of a Python file, read and not run: the example arguments with which it calls its kernels."""
