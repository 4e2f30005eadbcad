"""Changes of a kernel that advice proposes, each with the model's estimates of the changed kernel.

Remedies are those of the public NKI performance, architecture and DMA guides.
"""
