"""The mutation benchmark: correct kernels broken in one place by the thousands, and whether `check` sees it."""
