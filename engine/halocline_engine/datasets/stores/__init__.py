"""Sources that values are read from and sinks that they are written to, by regions."""
