"""The mutation benchmark: correct kernels broken in one place each, and whether `check` sees it."""
