"""Tridiagonal, pentadiagonal and tree solves: requests, and what a worker does with a block."""
