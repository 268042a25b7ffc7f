"""Problems in kernels: where they are, which rule found them, how they are shown. Plain Python, no tvm."""
