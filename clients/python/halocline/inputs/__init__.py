"""Arguments of users, converted to what the service takes."""
