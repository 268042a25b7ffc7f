"""`import tilelang.metal.language as T`, as kernels for Apple GPUs import the language."""
