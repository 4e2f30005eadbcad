"""``neuronxcc.nki.isa.constants``."""

from __future__ import annotations

from nki.isa.tables.enums import dge_mode, engine, nc_version, oob_mode, reduce_cmd

__all__ = ["dge_mode", "engine", "nc_version", "oob_mode", "reduce_cmd"]
