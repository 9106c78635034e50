"""Meaning of dimensions and variables: axes, fields, columns, coordinates."""
