"""Every name of tvm.tirx.expr is Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
