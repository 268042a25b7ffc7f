"""What the author tells the compiler: requests that change speed only, and facts about tensors and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tilelang.language.values import OutsideKernelError


def use_swizzle(panel_size: int, order: Literal["row", "column", "mlx"] = "row", enable: bool = True) -> None:
    """Visit the blocks of the grid in panels of `panel_size` rows (or columns), so that neighbours share
    the L2 cache.
    """
    raise OutsideKernelError("use_swizzle")


def annotate_safe_value(safe_value_map: Mapping[Any, Any]) -> None:
    """What reads outside of a global tensor give instead of 0: `T.annotate_safe_value({A: -1.0})`."""
    raise OutsideKernelError("annotate_safe_value")


def annotate_l2_hit_ratio(l2_hit_ratio_map: Mapping[Any, float]) -> None:
    """How much of a global tensor should stay in the L2 cache, from 0 to 1: a hint, checked and not used."""
    raise OutsideKernelError("annotate_l2_hit_ratio")


def annotate_restrict_buffers(*buffers: Any) -> None:
    """Tensors that may share memory with other arguments: their pointers are declared without `restrict`."""
    raise OutsideKernelError("annotate_restrict_buffers")


def assume(cond: Any = None) -> None:
    """Say that `cond` holds from here on: guards and narrow accesses that it makes needless are left out.

    `T.assume(N % 8 == 0)`, `T.assume(index < M)`. Nothing checks it: where it does not hold, anything may
    happen.
    """
    raise OutsideKernelError("assume")


def annotate_min_blocks_per_sm(n: int) -> None:
    """At least how many blocks a multiprocessor should hold at once: limits the registers."""
    raise OutsideKernelError("annotate_min_blocks_per_sm")


def annotate_compile_flags(flags: list[str] | str) -> None:
    """Flags for the target's compiler, from inside the kernel: `T.annotate_compile_flags("-O2")`."""
    raise OutsideKernelError("annotate_compile_flags")


def annotate_pass_configs(configs: Mapping[str, Any]) -> None:
    """Pass configurations from inside the kernel, as `pass_configs=` of the decorator."""
    raise OutsideKernelError("annotate_pass_configs")
