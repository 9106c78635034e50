"""FORWARD and BACKWARD kernels: a thread computes a column."""
