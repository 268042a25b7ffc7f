"""Synchronisation by hand; ordinary kernels need none, barriers are placed by the compiler."""

from __future__ import annotations

from typing import Any

from tilelang.language.values import OutsideKernelError, Scalar


def sync_threads(barrier_id: int | None = None, arrive_count: int | None = None) -> None:
    """Wait until all threads of the block are here and their writes to shared memory are seen.

    barrier_id and arrive_count: a named barrier (0 to 15), at which `arrive_count` threads, a multiple of the
    warp size (without it all of the block), wait for each other; NVIDIA GPUs only (PTX ISA, barrier).
    """
    raise OutsideKernelError("sync_threads")


def named_barrier_arrive(barrier_id: int, thread_count: int) -> None:
    """Say at the named barrier that this thread was here, without waiting; NVIDIA GPUs only.

    thread_count: threads that meet at the barrier, those that wait by `T.sync_threads(barrier_id,
    thread_count)` among them.
    """
    raise OutsideKernelError("named_barrier_arrive")


def sync_warp(mask: Any = None) -> None:
    """Wait until the lanes of the warp (those of `mask`) are here and their writes are seen by each other."""
    raise OutsideKernelError("sync_warp")


def sync_grid() -> None:
    """Wait until all blocks of the grid are here and their writes to global memory are seen.

    The grid must fit on the device at once: it is launched as a cooperative grid.
    """
    raise OutsideKernelError("sync_grid")


def syncthreads_count(predicate: Any) -> Scalar:
    """A barrier of the block that gives the number of threads whose `predicate` is not zero (int32)."""
    raise OutsideKernelError("syncthreads_count")


def syncthreads_and(predicate: Any) -> Scalar:
    """A barrier of the block that gives whether `predicate` is not zero in all threads (int32)."""
    raise OutsideKernelError("syncthreads_and")


def syncthreads_or(predicate: Any) -> Scalar:
    """A barrier of the block that gives whether `predicate` is not zero in any thread (int32)."""
    raise OutsideKernelError("syncthreads_or")
