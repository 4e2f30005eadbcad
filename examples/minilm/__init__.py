"""A sentence-embedding model, all-MiniLM-L6-v2, computed by NKI kernels and compared with PyTorch."""
