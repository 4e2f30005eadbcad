"""Estimates: the prices of instructions and of DMA transfers."""
