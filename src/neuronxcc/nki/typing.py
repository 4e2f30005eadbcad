"""``neuronxcc.nki.typing``: annotations of tensors, and the scalars of loop conditions."""

from __future__ import annotations

from nki.beta1.shape_annotations import mutable_tensor, scalar, tensor

__all__ = ["mutable_tensor", "scalar", "tensor"]
