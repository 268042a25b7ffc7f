"""Layouts: where the elements of a tile live, in shared memory (`shared`) and over threads and registers
(`fragment`).
"""
