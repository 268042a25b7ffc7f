"""fragment-runtime-extent: a fragment, or a parallel loop over one, whose size is known only at run time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.analysis.subject import Subject, soften
from tilelang.arch.tables import features
from tilelang.diagnostics.problem import Problem, Related, Severity
from tilelang.diagnostics.rules.layout import (
    FRAGMENT_RUNTIME_EXTENT,
    FRAGMENT_RUNTIME_LOOP,
    SHARED_RUNTIME_EXTENT,
)
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Loop
from tilelang.ir.values import Buffer, Value, show
from tilelang.ops.operands import declared
from tilelang.ops.source_edits import text_of


def check(subject: Subject) -> Iterator[Problem]:
    """Allocations first, then loops."""
    for problem in unplaced_shared_tiles(subject):
        # The language allows them: that this compiler cannot place them is an error of compiling only.
        yield replace(problem, severity=Severity.HINT)
    for buffer in subject.program.buffers:
        if buffer.scope not in ("local.fragment", "local") or buffer.view_of is not None:
            continue
        for dim, size in enumerate(buffer.shape):
            if subject.context.runtime(size):
                yield FRAGMENT_RUNTIME_EXTENT.at(
                    buffer.span,
                    related=why_runtime(subject, size),
                    dim=dim,
                    buffer=buffer.name,
                    size=show(size),
                )
                break
    if subject.target.kind != "cpu":
        yield from _loops(subject)


def unplaced_shared_tiles(subject: Subject) -> Iterator[Problem]:
    """Shared tiles sized at run time: on a GPU their places in memory are decided when compiling."""
    if not features(subject.target).spreads_blocks:
        return
    for buffer in subject.program.buffers:
        if buffer.scope == "shared" and buffer.view_of is None:
            yield from _unplaced(subject, buffer)


def _unplaced(subject: Subject, buffer: Buffer) -> Iterator[Problem]:
    for dim, size in enumerate(buffer.shape):
        if subject.context.runtime(size):
            yield SHARED_RUNTIME_EXTENT.at(
                buffer.span,
                related=why_runtime(subject, size),
                dim=dim,
                buffer=buffer.name,
                size=show(size),
                target=subject.target.name,
            )
            return


def why_runtime(subject: Subject, size: Value) -> tuple[Related, ...]:
    """The arguments of each call that a size depends on. What is annotated with Python's own `int` is no such
    argument: after `from tilelang.language import *` it is the language's.
    """
    found = []
    for parameter in subject.program.params:
        if parameter.scalar is None or parameter.scalar not in free_vars(size):
            continue
        message = f"`{parameter.name}` is an argument of each call, known only then"
        written = text_of(parameter.span, subject.text).partition(":")[2].strip()
        if written in ("int", "float", "bool"):
            message += (
                f": `{written}` is a dtype of the language here, imported from tilelang.language; annotate "
                f"with `builtins.{written}` or nothing what is known when the kernel is compiled"
            )
        found.append(Related(parameter.span, message))
    return tuple(found)


def _loops(subject: Subject) -> Iterator[Problem]:
    told: set[Loop] = set()
    for access in subject.program.accesses:
        if access.buffer.scope != "local.fragment":
            continue
        used = {v for index in access.indices for v in free_vars(index.start)}
        for loop in access.context.loops:
            if loop.kind != "Parallel" or loop in told:
                continue
            for var, extent in zip(loop.vars, loop.extents, strict=True):
                if var in used and subject.context.runtime(extent):
                    told.add(loop)
                    problem = FRAGMENT_RUNTIME_LOOP.at(
                        loop.span,
                        related=declared(access.buffer),
                        var=var.name,
                        size=show(extent),
                        buffer=access.buffer.name,
                        target=subject.target,
                    )
                    yield soften(problem, access.context)
                    break
