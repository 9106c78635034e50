"""IR and facts become kernels."""
