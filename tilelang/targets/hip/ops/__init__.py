"""Lowerings of tile operations for HIP."""
