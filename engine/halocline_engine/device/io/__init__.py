"""Threads that copy files and arrays to and from device memory."""
