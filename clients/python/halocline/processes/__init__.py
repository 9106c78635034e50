"""The processes of a service, one method of the client each."""
