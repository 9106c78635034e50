"""Schedules become artifacts."""
