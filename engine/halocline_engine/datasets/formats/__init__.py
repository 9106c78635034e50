"""Datasets in formats of their own: ragged arrays, morphologies, meshes, weights, tables."""
