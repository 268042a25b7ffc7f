"""The error of every target's toolchain: nothing to compile with, or source that does not compile."""

from __future__ import annotations


class ToolchainError(RuntimeError):
    """The generated source could not be compiled, or there is nothing to compile it with."""
