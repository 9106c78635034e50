"""PARALLEL kernels on arrays along K: a thread has a level."""
