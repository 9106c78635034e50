"""Identity of a request."""
