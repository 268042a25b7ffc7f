"""Tests of the tile operations."""
