"""Kernels whose blocks of threads run several stages."""
