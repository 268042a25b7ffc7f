"""TVM for checks of types: its classes get fields and methods at import, so every name is Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
