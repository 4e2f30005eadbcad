"""Changes of a kernel that advice proposes, each with the model's estimates of the changed kernel.

Remedies come from the public NKI performance, architecture and DMA guides.
"""
