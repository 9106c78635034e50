"""The accessor of xarray, in parts."""
