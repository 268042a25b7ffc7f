"""Lowerings of tile operations for CUDA."""
