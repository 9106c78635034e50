"""Hand-written kernels, a folder a problem."""
