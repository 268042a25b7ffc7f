"""Operations that fold or run along tiles: further reductions, scans, reducers, any and all."""

from __future__ import annotations

from typing import Any, Literal

from tilelang.language.dtypes import DTypeLike
from tilelang.language.values import OutsideKernelError, Scalar, Tile

Annotations = dict[str, Any] | None
ReduceKind = Literal["sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor"]


def reduce(
    buffer: Any,
    out: Any,
    reduce_type: ReduceKind,
    dim: int,
    clear: bool,
    batch: int = 1,
    annotations: Annotations = None,
) -> None:
    """out = `buffer` folded over dimension `dim` as `reduce_type` says. Shapes as in `T.reduce_sum`."""
    raise OutsideKernelError("reduce")


def reduce_bitand(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """out = bitwise and of integers over dimension `dim`. Shapes as in `T.reduce_sum`."""
    raise OutsideKernelError("reduce_bitand")


def reduce_bitor(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """out = bitwise or of integers over dimension `dim`. Shapes as in `T.reduce_sum`."""
    raise OutsideKernelError("reduce_bitor")


def reduce_bitxor(
    buffer: Any, out: Any, dim: int = -1, clear: bool = True, batch: int = 1, annotations: Annotations = None
) -> None:
    """out = bitwise exclusive or of integers over dimension `dim`. Shapes as in `T.reduce_sum`."""
    raise OutsideKernelError("reduce_bitxor")


def cumsum(
    src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Annotations = None
) -> None:
    """dst = running sum of `src` along `dim`: each element is the sum up to itself, reversed from the end.

    src: a tile of one or two dimensions in shared memory or a fragment. dst: a tile of the same shape; `src`
    itself unless given. dim: 0 or 1, -1 is the last. Halves are summed in float32.
    """
    raise OutsideKernelError("cumsum")


def cummax(
    src: Any, dst: Any = None, dim: int = 0, reverse: bool = False, annotations: Annotations = None
) -> None:
    """dst = running maximum of `src` along `dim`. Operands as in `T.cumsum`."""
    raise OutsideKernelError("cummax")


def alloc_reducer(
    shape: Any,
    dtype: DTypeLike,
    op: Literal["sum", "max", "min", "bitand", "bitor", "bitxor"] = "sum",
    replication: Literal["all", "none"] | None = None,
) -> Tile:
    """A tile that iterations of `T.Parallel` fold into, whichever threads run them.

    `T.reducer_init(acc)` starts it, `T.reducer_update(acc[i], x)` inside `T.Parallel` folds a value in, and
    `T.finalize_reducer(acc, dst)` gives the result. In the older form `T.fill` starts it, `acc[i] += x`
    updates, and after `T.finalize_reducer(acc)` it is read like a fragment. replication: a hint.
    """
    raise OutsideKernelError("alloc_reducer")


def reducer_init(reducer: Any, init: Any = None) -> None:
    """Start a reducer with what changes no result, or with `init`, which is folded in once."""
    raise OutsideKernelError("reducer_init")


def reducer_update(target: Any, value: Any) -> None:
    """Fold `value` into one element of a reducer: `T.reducer_update(acc[j], x[i, j])` inside `T.Parallel`."""
    raise OutsideKernelError("reducer_update")


def finalize_reducer(reducer: Any, dst: Any = None, batch: int = 1, annotations: Annotations = None) -> None:
    """End the updates of a reducer; its values go to `dst` where that is given. batch: a hint."""
    raise OutsideKernelError("finalize_reducer")


def any_of(buffer: Any) -> Scalar:
    """Whether any element of a tile or of a slice is not zero. Each thread that asks looks at all of them."""
    raise OutsideKernelError("any_of")


def all_of(buffer: Any) -> Scalar:
    """Whether no element of a tile or of a slice is zero. Each thread that asks looks at all of them."""
    raise OutsideKernelError("all_of")
