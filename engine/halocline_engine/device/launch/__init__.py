"""Kernel launches, captured graphs and calls of compiled functions."""
