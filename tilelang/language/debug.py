"""Looking into a running kernel: T.print and T.device_assert."""

from __future__ import annotations

from typing import Any

from tilelang.language.values import OutsideKernelError


def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Print a number of each thread that comes here, or every element of a tile, with block and thread.

    obj: a number, or a tile: shared tiles and fragments are printed by one thread, private arrays by each.
    msg: a text before the value. warp_group_id, warp_id: which thread prints a tile; a hint. On CUDA and the
    CPU.
    """
    raise OutsideKernelError("print")


def device_assert(condition: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Stop the kernel where `condition` does not hold: the Python file and line, the condition and `msg` are
    printed, and the call raises. `assert condition, msg` in a kernel means the same. On CUDA and the CPU.
    """
    raise OutsideKernelError("device_assert")
