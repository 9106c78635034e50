"""Column programs: their jobs, and what a worker does with a block."""
