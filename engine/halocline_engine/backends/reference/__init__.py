"""NumPy runs the IR itself and judges the others."""
