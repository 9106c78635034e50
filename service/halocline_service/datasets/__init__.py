"""Datasets that may be named, uploaded and read."""
