"""Sequences of stages that are repeated: what a stage makes, the next ones read."""
