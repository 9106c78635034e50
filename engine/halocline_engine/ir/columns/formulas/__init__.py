"""Formulas of column operators at one point, as expressions of the IR."""
