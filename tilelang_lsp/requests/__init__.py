"""What a client may ask, a family of requests per file; each has one `register(server)`."""
