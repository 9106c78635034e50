"""Tests of blocks, passes and clusters: a package, so that the workers they share end with it."""
