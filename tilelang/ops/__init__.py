"""Tile operations, one file each: what is written, what is checked, what is lowered."""
