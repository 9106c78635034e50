"""Arguments of the client's methods, checked and converted to JSON."""
