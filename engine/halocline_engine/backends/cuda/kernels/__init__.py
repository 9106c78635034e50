"""Kinds of kernels: their text, their tiles and their launches."""
