"""FORWARD and BACKWARD kernels on arrays along K: a warp moves its columns in chunks of levels."""
