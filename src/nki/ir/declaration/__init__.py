"""What the decorator of instructions derives from a declaration: its fields, and the methods made of them."""
