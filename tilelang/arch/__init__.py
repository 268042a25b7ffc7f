"""Plain tables per target: limits, instruction shapes, dtypes. No tvm, no torch."""
