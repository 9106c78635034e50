"""Parts that interfaces share: names of arguments, and forms of them that only services have."""
