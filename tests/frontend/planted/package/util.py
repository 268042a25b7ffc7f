"""What kernels beside it import: util."""

THREADS = 128


def cdiv(a, b):
    return -(-a // b)
