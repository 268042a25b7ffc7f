"""Correct kernels of many kinds, which the mutation benchmark breaks in one place each."""
