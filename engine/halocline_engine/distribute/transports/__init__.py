"""Transports of fields between a store and a device: staged, zero-copy, direct, decoded there."""
