"""Types that code around kernels writes in its annotations."""

from __future__ import annotations

from typing import Protocol, TypeVar

from tvm import tirx as X

Program = TypeVar("Program", bound=X.PrimFunc)


class Kernel(Protocol):
    """What is known of a compiled kernel by its shape alone."""

    source: str
    out_idx: list[int] | int

    def get_kernel_source(self) -> str:
        """The generated source."""
        ...
