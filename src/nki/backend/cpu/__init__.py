"""Native execution through LLVM."""
