"""Synchronisation by hand; ordinary kernels need none, barriers are placed by the compiler."""

from __future__ import annotations

from tilelang.language.values import OutsideKernelError


def sync_threads(barrier_id: int | None = None, arrive_count: int | None = None) -> None:
    """Wait until all threads of the block are here and their writes to shared memory are seen.

    barrier_id and arrive_count (a named barrier for part of the block) are not supported.
    """
    raise OutsideKernelError("sync_threads")
