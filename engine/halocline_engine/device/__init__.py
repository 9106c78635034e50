"""One GPU."""
