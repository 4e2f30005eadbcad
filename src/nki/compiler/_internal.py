"""``nki.compiler._internal``: the MLIR bindings of the vendor's compiler, which this package does not have."""

from nki.harness.vendor_modules import refuse

refuse(
    __name__,
    "the MLIR bindings of the vendor's compiler",
    "read the compiled kernel as text or as an artifact: `nki dump`, docs/cli.md",
)
