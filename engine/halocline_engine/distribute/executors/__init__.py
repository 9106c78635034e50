"""Executors of blocks: threads of this process, or workers of a Dask cluster."""
