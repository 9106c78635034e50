"""The store in one process: for tests, and the reference for what SQL must mean."""
