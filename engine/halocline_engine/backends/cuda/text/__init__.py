"""CUDA C++ that kernels of every kind use."""
