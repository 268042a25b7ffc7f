"""The analysis process, its protocol and its memo, and the server's side of it."""
