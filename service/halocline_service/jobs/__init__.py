"""What a job is, and how it may change: no I/O."""
