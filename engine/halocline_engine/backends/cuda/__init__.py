"""CUDA through CuPy."""
