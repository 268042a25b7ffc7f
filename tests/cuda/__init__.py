"""Tests of the CUDA target: lowered kernels run in the emulator, sources compile with nvcc."""
