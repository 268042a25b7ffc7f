"""One folder per target: its passes in order, the lowering of every tile operation, emission, toolchain."""
