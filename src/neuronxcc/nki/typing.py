"""``nki.typing`` under the name that it had in NKI Beta 1: programs that only import annotations keep running.

``neuronxcc`` and ``neuronxcc.nki`` are namespaces without files of their own, so that they stand in nobody's way.
"""

from __future__ import annotations

from nki.typing import mutable_tensor, tensor

__all__ = ["mutable_tensor", "tensor"]
