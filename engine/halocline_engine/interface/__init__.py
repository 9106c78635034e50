"""Parts that interfaces share: names of arguments, how each writes them, and forms of services."""
