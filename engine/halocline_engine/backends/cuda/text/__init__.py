"""CUDA C++ text that kernels of every kind use."""
