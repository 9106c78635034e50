"""Exact sums, and extremes with their places: the same bits for any order of the values."""
