"""IR becomes facts."""
