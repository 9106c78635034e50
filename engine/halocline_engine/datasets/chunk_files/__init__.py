"""Zarr arrays whose chunks are read and written as files, by several threads."""
