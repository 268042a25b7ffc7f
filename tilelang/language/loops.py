"""Loops: over the elements of a tile in parallel, pipelined over tiles, serial, unrolled, vectorised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from tilelang.language.values import OutsideKernelError, Scalar

Annotations = Mapping[str, Any] | None


@overload
def Parallel(
    extent: Any,
    /,
    *,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Annotations = None,
) -> Iterator[Scalar]: ...
@overload
def Parallel(
    first: Any,
    second: Any,
    /,
    *,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Annotations = None,
) -> Iterator[tuple[Scalar, Scalar]]: ...
@overload
def Parallel(
    first: Any,
    second: Any,
    third: Any,
    /,
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Annotations = None,
) -> Iterator[tuple[Scalar, ...]]: ...
def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Annotations = None,
) -> Any:
    """Every element of a tile, spread over the threads of the block: `for i, j in T.Parallel(128, 64):`

    extents: one per variable. Iterations must not depend on each other; directly nested loops form one
    region.
    coalesced_width: elements that one thread takes side by side, a divisor of the vector width. loop_layout:
    accepted and passed over, the compiler shares the elements out itself; prefer_async asks for
    asynchronous copies where they are possible.
    """
    raise OutsideKernelError("Parallel")


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    annotations: Annotations = None,
) -> Iterator[Scalar]:
    """A loop whose copies run ahead of its computation: `for k in T.Pipelined(T.ceildiv(K, 32),
    num_stages=3):`

    start, stop: as in `range`; one number is the stop.
    num_stages: versions kept of each shared tile that a copy fills; 0 is an ordinary serial loop.
    order, stage: a schedule by hand, one entry per statement; not to be combined with num_stages.
    """
    raise OutsideKernelError("Pipelined")


def serial(
    start: Any, stop: Any = None, step: Any = None, *, annotations: Annotations = None
) -> Iterator[Scalar]:
    """An ordinary loop, as `range`; the bounds may be known only at run time, `step` is not 0."""
    raise OutsideKernelError("serial")


def Serial(
    start: Any, stop: Any = None, step: Any = None, *, annotations: Annotations = None
) -> Iterator[Scalar]:
    """The same as `T.serial`."""
    raise OutsideKernelError("Serial")


def unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: Annotations = None,
) -> Iterator[Scalar]:
    """A loop written out once per iteration. explicit: already in the tile program; unroll_factor: only so
    many times.
    """
    raise OutsideKernelError("unroll")


def Unroll(
    start: Any,
    stop: Any = None,
    step: Any = None,
    *,
    explicit: bool = False,
    unroll_factor: int | None = None,
    annotations: Annotations = None,
) -> Iterator[Scalar]:
    """The same as `T.unroll`."""
    raise OutsideKernelError("Unroll")


def thread_return() -> None:
    """The thread is done: `if i >= n: T.thread_return()` in the body of the kernel, in no loop.

    What follows is done by the other threads; a barrier there is a problem unless whole blocks leave.
    """
    raise OutsideKernelError("thread_return")


def grid(*extents: Any) -> Iterator[tuple[Scalar, ...]]:
    """Nested ordinary loops, the first outermost: `for i, j in T.grid(4, 8):`"""
    raise OutsideKernelError("grid")


def loop_break() -> None:
    """Leave the loop of the kernel around, as `break` does."""
    raise OutsideKernelError("loop_break")


def break_loop() -> None:
    """The same as `T.loop_break`."""
    raise OutsideKernelError("break_loop")


def continue_loop() -> None:
    """Go on with the next iteration of the loop of the kernel around, as `continue` does."""
    raise OutsideKernelError("continue_loop")


def vectorized(start: Any, stop: Any = None, *, annotations: Annotations = None) -> Iterator[Scalar]:
    """A loop that becomes one vector operation; serial where the accesses are not contiguous."""
    raise OutsideKernelError("vectorized")


def Vectorized(start: Any, stop: Any = None, *, annotations: Annotations = None) -> Iterator[Scalar]:
    """The same as `T.vectorized`."""
    raise OutsideKernelError("Vectorized")


def thread_binding(
    start: Any, stop: Any = None, thread: str | None = None, *, annotations: Annotations = None
) -> Iterator[Scalar]:
    """A loop whose iterations are the threads of the block: `for i in T.thread_binding(128, "threadIdx.x"):`

    start, stop: as in `range`, as many as the block has threads along `thread` ("threadIdx.x", ".y" or ".z").
    """
    raise OutsideKernelError("thread_binding")


def parallel(start: Any, stop: Any = None, *, annotations: Annotations = None) -> Iterator[Scalar]:
    """A loop whose iterations do not depend on each other, in TVM's script; each thread runs all of them, as
    in T.serial. T.Parallel shares iterations out.
    """
    raise OutsideKernelError("parallel")
