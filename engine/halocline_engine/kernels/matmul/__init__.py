"""Dense matrix products: one tile of a product on each target, and whole ones on a device."""
