"""Generators of random numbers, one file each, as statements of a kernel: the numbers that cuRAND gives."""
