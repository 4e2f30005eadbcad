"""Parts of an instruction that follow from its declaration: the fields, and the methods made of them."""
