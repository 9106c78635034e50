"""Elements of equal size moved by an array of indices: gather, scatter, sparse products."""
