"""Reductions of datasets."""
