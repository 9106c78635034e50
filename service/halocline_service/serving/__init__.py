"""The API over HTTP/1.1: connections, how long they may take, and how many there may be."""
