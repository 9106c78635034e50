"""Several steps of a feedback as one computation that streams through memory."""
