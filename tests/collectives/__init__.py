"""Collectives among several ranks: oracles written from the documents, and random programs that are held to them."""
