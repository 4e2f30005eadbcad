"""``neuronxcc.nki._pre_prod_kernels``: a part of the vendor's compiler without documents, absent here."""

from nki.harness.vendor_modules import refuse

refuse(
    __name__,
    "a part of the vendor's compiler without documents",
    "write the kernel yourself, or take one with the same purpose from nki-library or nki-samples",
)
