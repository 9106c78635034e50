"""Decompression of chunks on the device."""
