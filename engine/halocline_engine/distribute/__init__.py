"""Many blocks, many workers."""
