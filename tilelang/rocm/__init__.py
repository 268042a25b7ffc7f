"""`import tilelang.rocm.language as T`, as kernels for AMD GPUs import the language."""
