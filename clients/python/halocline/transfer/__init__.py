"""Uploads of datasets, and submission of jobs."""
