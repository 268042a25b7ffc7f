"""Where names come from: running Python (live) or the text alone (static), and the kernels found there."""
