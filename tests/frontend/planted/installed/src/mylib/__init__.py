"""What kernels beside it import: mylib."""

from mylib.config import DEFAULTS
