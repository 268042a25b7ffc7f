"""What stops the reference: a program that does what the language forbids, or an operation it cannot run."""

from __future__ import annotations

from typing import Any


class ReferenceFailure(ValueError):
    """The program does something that has no meaning, with the Python line it stands in."""

    def __init__(self, message: str, span: Any = None) -> None:
        self.line = int(span.line) if span is not None else None
        where = f"line {self.line}: " if self.line else ""
        super().__init__(f"{where}{message}")


class NoMeaning(NotImplementedError):
    """The reference does not know an operation of the language."""
