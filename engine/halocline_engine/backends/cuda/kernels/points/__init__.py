"""PARALLEL kernels: a thread computes a tile of points."""
