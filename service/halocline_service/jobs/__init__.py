"""Jobs and their transitions: no I/O."""
