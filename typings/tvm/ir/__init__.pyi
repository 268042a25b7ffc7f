"""Every name of tvm.ir is Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
