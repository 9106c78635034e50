"""PARALLEL kernels whose blocks have all levels of columns, in part on chip."""
