"""``nki.compiler.kernel_builder``: a second kernel language of the vendor, which this package does not have."""

from nki.harness.vendor_modules import refuse

refuse(
    __name__,
    "a second kernel language of the vendor, below NKI and without documents",
    "write the kernel with nki.language and nki.isa, and compile it with nki.jit",
)
