"""`import tilelang.cpu.language as T`, as kernels for the CPU import the language."""
