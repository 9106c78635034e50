"""The store in one process: for tests, and the judge of what SQL must mean."""
