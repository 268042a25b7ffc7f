"""A torch that is not installed: put before the real one on the path."""

raise ImportError("No module named 'torch'")
