"""Operators on meshes, as sparse matrices."""
