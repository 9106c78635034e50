"""Where jobs, events, uploads and keys are kept: one protocol, SQL and in-memory."""
