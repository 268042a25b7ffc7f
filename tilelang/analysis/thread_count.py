"""thread-count, grid-size: blocks with more threads, and grids with more blocks, than the target launches."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilelang.analysis.subject import Subject
from tilelang.analysis.thread_names import names_threads
from tilelang.arch.tables import features, limits
from tilelang.diagnostics.problem import Fix, Problem
from tilelang.diagnostics.rules.resource import (
    GRID_EMPTY,
    GRID_SIZE,
    THREAD_AXIS,
    THREAD_COUNT,
    THREAD_IDLE,
)
from tilelang.diagnostics.span import Span
from tilelang.ir.tile_program import Launch
from tilelang.ir.values import Unknown, as_int, show
from tilelang.ops.registry import PRODUCTS
from tilelang.ops.source_edits import keyword_edit, keyword_span

_ANY = 2**31 - 1  # as many blocks as an int32 counts


def check(subject: Subject) -> Iterator[Problem]:
    """On the CPU threads vanish, so there is no limit. That warps are whole is a matter of T.gemm."""
    if not features(subject.target).spreads_blocks:
        return
    for launch in subject.program.launches():
        if launch.threads is not None:
            yield from _threads(subject, launch, launch.threads)
        yield from _grid(subject, launch)
        yield from _empty(subject, launch)


def _threads(subject: Subject, launch: Launch, threads: tuple[int, ...]) -> Iterator[Problem]:
    target, count, limit = subject.target, prod(threads), limits(subject.target).threads
    if count > limit:
        yield THREAD_COUNT.at(
            _place(subject, launch),
            fixes=_use(subject, launch, limit),
            threads=count,
            limit=limit,
            target=target,
        )
        return
    for axis, most in zip(range(len(threads)), features(target).block, strict=False):
        if threads[axis] > most:
            yield THREAD_AXIS.at(
                _place(subject, launch), threads=threads[axis], axis="xyz"[axis], limit=most, target=target
            )
    if 1 < count < target.warp_size and not any(r.op in PRODUCTS for r in subject.records):
        yield THREAD_IDLE.at(
            _place(subject, launch),
            # Thread code counts its threads: with more of them it would do something else.
            fixes=() if names_threads(launch) else _use(subject, launch, target.warp_size),
            threads=count,
            warp=target.warp_size,
            idle=target.warp_size - count,
            target=target,
        )


def _place(subject: Subject, launch: Launch) -> Span:
    return keyword_span(launch.span, subject.text, "threads")


def _use(subject: Subject, launch: Launch, count: int) -> tuple[Fix, ...]:
    edit = keyword_edit(launch.span, subject.text, "threads", count)
    return () if edit is None else (Fix(f"Use threads={count}", (edit,)),)


def _grid(subject: Subject, launch: Launch) -> Iterator[Problem]:
    for axis, (extent, most) in enumerate(zip(launch.grid, features(subject.target).grid, strict=False)):
        known = as_int(extent)
        if isinstance(extent, Unknown) or most >= _ANY or (known is not None and known <= most):
            continue
        fewest = subject.prover.bounds(extent)[0]
        if fewest is not None and fewest > most:
            yield GRID_SIZE.at(
                launch.span,
                axis="xyz"[axis],
                number=axis,
                blocks=show(extent),
                limit=most,
                target=subject.target,
            )


def _empty(subject: Subject, launch: Launch) -> Iterator[Problem]:
    """A grid without blocks, unless there is nothing to do: a tensor without elements."""
    sizes = [n for p in subject.program.params if p.buffer is not None for n in p.buffer.shape]
    if any(as_int(n) == 0 for n in sizes):
        return
    for axis, extent in enumerate(launch.grid[:3]):
        blocks = as_int(extent)
        if blocks is not None and blocks < 1:
            yield GRID_EMPTY.at(launch.span, axis="xyz"[axis], number=axis, blocks=blocks)
