"""``nki._internal``: the inner modules of the vendor's package, which this package does not have."""

from nki.harness.vendor_modules import refuse

refuse(__name__, "the inside of the vendor's package", "import the public module: nki.language, nki.isa, nki.compiler")
