"""Rules for storing values of memory, which the engine and the client share."""
