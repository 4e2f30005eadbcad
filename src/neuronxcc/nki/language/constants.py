"""``neuronxcc.nki.language.constants``."""

from __future__ import annotations

from nki.beta1.functions import tile_size

__all__ = ["tile_size"]
