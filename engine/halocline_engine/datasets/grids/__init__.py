"""What dimensions and variables of a dataset mean: axes, fields, columns, coordinates."""
