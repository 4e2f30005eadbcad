"""The loop IR: one instruction as loops over expressions."""
