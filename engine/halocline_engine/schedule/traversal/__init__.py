"""The order in which points and blocks are visited, and what a cache holds meanwhile."""
