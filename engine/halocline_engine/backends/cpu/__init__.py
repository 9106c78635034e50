"""Numba."""
