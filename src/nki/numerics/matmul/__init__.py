"""Matrix products: the order of their sums, the matrix units of processors, and the layouts that these read."""
