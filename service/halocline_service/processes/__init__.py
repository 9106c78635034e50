"""Processes: their inputs, outputs and checks."""
