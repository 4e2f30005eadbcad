"""Prices of instructions and transfers: the estimates that the scheduler and the timing model share."""
