"""Who computes blocks: threads of this process, or workers of a Dask cluster."""
