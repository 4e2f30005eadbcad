"""``neuronxcc.nki.kernels``: the kernels that the vendor ships with Beta 1, which this package does not have."""

from nki.harness.vendor_modules import refuse

# Release notes of NKI, 2.24: the documentation and the source of these kernels are those of nki-samples.
refuse(
    __name__,
    "a collection of kernels of the vendor",
    "copy the kernel from nki-samples, which publishes its source (attention.py: flash_fwd, flash_attn_bwd), and "
    "import your copy",
)
