"""Legality rules that several instructions share."""
