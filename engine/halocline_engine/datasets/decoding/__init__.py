"""Compressed chunks: what their files say, what may be decoded, and which are corrupt."""
