"""The HTTP surface: thin routes."""
