"""PARALLEL kernels whose threads keep a rolling window of levels."""
