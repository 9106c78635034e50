"""Halocline's service: jobs over HTTP."""
