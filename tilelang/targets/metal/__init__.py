"""The Metal target: Apple GPUs, 8×8 simdgroup matrices, 32 threads in step, 32 KiB of threadgroup memory."""
