"""Every name of tvm.sym is Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
