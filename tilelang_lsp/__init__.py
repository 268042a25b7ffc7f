"""The language server for TileLang kernels, and the processes that it starts."""
