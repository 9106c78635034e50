"""Kernels that make several steps of a feedback in one pass through memory."""
