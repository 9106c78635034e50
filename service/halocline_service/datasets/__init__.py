"""Which datasets may be named, uploaded and read."""
