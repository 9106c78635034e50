"""The ways of a block between a store and a device: staged, zero-copy, direct, decoded there."""
