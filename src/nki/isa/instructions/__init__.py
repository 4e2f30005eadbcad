"""The instruction declarations: one file per mnemonic or documented family."""
