"""The run process: a script for the user's interpreter, and the server's side of it."""
