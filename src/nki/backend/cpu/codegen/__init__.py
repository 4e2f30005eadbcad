"""LLVM IR of one instruction's loop IR."""
