"""The HIP target: AMD CDNA GPUs (gfx90a, gfx942) with MFMA, 64 threads in step, 64 KiB of LDS."""
