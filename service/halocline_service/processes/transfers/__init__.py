"""Processes that move values between places: by indices, weights, meshes."""
