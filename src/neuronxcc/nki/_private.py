"""``neuronxcc.nki._private``: a part of the vendor's compiler without documents, absent here."""

from nki.harness.vendor_modules import refuse

refuse(
    __name__,
    "a part of the vendor's compiler without documents",
    "use the documented functions: core_barrier and sendrecv are those of today's nki.isa, in a kernel with import nki",
)
