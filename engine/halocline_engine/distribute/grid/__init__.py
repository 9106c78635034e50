"""Blocks of a grid: how it is cut, what lies beyond its ends, where values go. Pure geometry."""
