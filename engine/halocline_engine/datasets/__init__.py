"""xarray in, xarray out: axes, fields and variables, sources of regions, and where results go."""
