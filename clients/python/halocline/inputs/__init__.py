"""What users give, as the service takes it."""
