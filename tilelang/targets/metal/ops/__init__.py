"""Lowerings of tile operations for Metal."""
