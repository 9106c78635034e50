"""Measurement and choice of tiles for a program on a device."""
