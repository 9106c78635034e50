"""Processes that solve systems of equations."""
