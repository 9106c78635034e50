"""PARALLEL kernels whose blocks have columns, for levels that only a run knows."""
