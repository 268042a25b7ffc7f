"""Golden sources: the text of few kernels per target, reviewed when it changes."""
