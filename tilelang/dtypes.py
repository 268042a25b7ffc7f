"""The dtypes of the language by name, as `tilelang.language` has them: `from tilelang import dtypes`."""

from __future__ import annotations

from typing import Any

from tilelang import language
from tilelang.arch.dtypes import DTYPES
from tilelang.language.dtypes import DTYPE_ALIASES
from tilelang.language.dtypes import DType as dtype
from tilelang.language.vector_dtypes import VECTOR_NAMES

__all__ = ["dtype", *DTYPE_ALIASES, *DTYPES, *VECTOR_NAMES]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tilelang.dtypes' has no attribute {name!r}")
    return getattr(language, name)
