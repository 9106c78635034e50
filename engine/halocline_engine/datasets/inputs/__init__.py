"""Datasets as users name them: opened, joined, or read from the web."""
