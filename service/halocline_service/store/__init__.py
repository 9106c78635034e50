"""Storage of jobs, events, uploads and keys: one protocol, SQL and in-memory."""
