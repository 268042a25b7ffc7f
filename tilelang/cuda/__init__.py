"""What kernels for NVIDIA GPUs import: `import tilelang.cuda.language as T`, `tilelang.cuda.intrinsics`."""
