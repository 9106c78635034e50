"""Vertical sweeps: the values of a column and the levels that hand them on."""
