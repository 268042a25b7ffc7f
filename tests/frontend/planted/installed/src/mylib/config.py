"""What kernels beside it import: config."""

DEFAULTS = {"block": 128, "dtype": "float16"}
