"""Jobs over the blocks of a dataset, on one or several workers."""
