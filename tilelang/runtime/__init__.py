"""Artifacts, loading, launching, timing: torch and the driver only, no compiler and no tvm."""
