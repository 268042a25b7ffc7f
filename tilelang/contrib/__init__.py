"""Asking about toolchains, and compiling with them, as kernels and their build scripts do."""
