"""Statements of one interval, with what they assign to and declare."""
