"""The CUDA backend: code for devices, and its execution through CuPy."""
