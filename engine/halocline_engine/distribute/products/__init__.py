"""Matrix products of named dimensions, tile by tile."""
