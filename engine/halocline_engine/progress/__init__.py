"""Progress display of a job from its events, shared by the library and the client."""
