"""Several steps of a feedback on tiles that stay in a core's cache."""
