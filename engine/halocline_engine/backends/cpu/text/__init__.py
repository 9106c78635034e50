"""Loops of the CPU target as text."""
