"""`import tilelang.cuda.language as T`, as kernels for NVIDIA GPUs import the language."""
