"""Every name of tvm.tirx is Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
