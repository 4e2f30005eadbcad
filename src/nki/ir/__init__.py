"""The intermediate representation: tensors, access patterns, instructions, kernels, text form and artifact."""
