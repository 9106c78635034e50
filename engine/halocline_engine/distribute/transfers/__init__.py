"""Gathers, scatters, regridding and operators on meshes; large ones sort into buckets."""
