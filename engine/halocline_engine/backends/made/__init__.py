"""Fields and scalars that no caller gives, made before the kernels of a program run."""
