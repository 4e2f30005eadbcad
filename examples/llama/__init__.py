"""A small Llama-style decoder, trained with NKI kernels and compared with plain PyTorch or JAX."""
