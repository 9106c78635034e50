"""PARALLEL kernels on arrays along K whose threads compute a point each."""
