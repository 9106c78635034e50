"""Progress of a job on a screen, made of its events; the library and the client share it."""
