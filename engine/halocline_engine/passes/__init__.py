"""IR becomes better IR."""
