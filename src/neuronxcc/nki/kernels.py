"""``neuronxcc.nki.kernels``: the kernels that the vendor ships with Beta 1, which this package does not have."""

from nki.harness.vendor_modules import refuse

# Release notes of NKI 2.22: documentation and source of these kernels have moved to nki-samples.
refuse(
    __name__,
    "a collection of kernels of the vendor",
    "copy the kernel from nki-samples, which publishes its source (attention.py: flash_fwd, flash_attn_bwd), and "
    "import your copy",
)
