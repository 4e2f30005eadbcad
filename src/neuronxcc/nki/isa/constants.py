"""``neuronxcc.nki.isa.constants``."""

from __future__ import annotations

from nki.beta1.isa import dge_mode, engine, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "engine", "nc_version", "oob_mode", "reduce_cmd"]
