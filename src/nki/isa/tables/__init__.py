"""The enumerations, ALU operators and activation functions of the instruction set."""
