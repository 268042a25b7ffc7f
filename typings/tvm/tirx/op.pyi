"""Every name of tvm.tirx.op is Any."""

from typing import Any

def __getattr__(name: str) -> Any: ...
