"""Targets by the names that kernels and tests import them under; the tables are in `tilelang.arch`."""
