"""Checks of requests in processes with limits of time and memory."""
