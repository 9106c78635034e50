"""Hand-written kernels, one folder for each problem."""
