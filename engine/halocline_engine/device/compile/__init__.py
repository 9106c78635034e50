"""Compilation of CUDA text and loading of what was compiled."""
