"""Tridiagonal and pentadiagonal systems, many at once."""
