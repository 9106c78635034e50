"""Datasets on their way to the service, with the jobs that they are for."""
