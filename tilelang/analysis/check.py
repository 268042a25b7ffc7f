"""Check a kernel or a file: every rule over every specialisation, facts and problems together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tilelang.analysis import (
    bounds,
    fragment_cross_thread,
    fragment_runtime_extent,
    fragment_serial_access,
    local_parallel_index,
    nested_tile_op,
    never_read,
    parallel_reduction_race,
    pipelined_write_after_read,
    read_before_write,
    shared_memory_budget,
    thread_count,
    uninitialised_accumulator,
    unsupported_nesting,
)
from tilelang.analysis.kernel_facts import kernel_facts
from tilelang.analysis.subject import Check, Subject, soften
from tilelang.arch.target import Target, parse_target
from tilelang.diagnostics.problem import Problem
from tilelang.facts.kernel_facts import KernelFacts
from tilelang.ir.tile_program import TileProgram
from tilelang.ops.registry import TILE_OPS

CHECKS: tuple[Check, ...] = (
    thread_count.check,
    bounds.check_slices,
    bounds.check_indices,
    fragment_runtime_extent.check,
    fragment_cross_thread.check,
    fragment_serial_access.check,
    local_parallel_index.check,
    nested_tile_op.check,
    unsupported_nesting.check,
    uninitialised_accumulator.check,
    read_before_write.check,
    pipelined_write_after_read.check,
    parallel_reduction_race.check,
    shared_memory_budget.check,
    never_read.check,
)


def check_program(
    program: TileProgram, target: str | Target, text: str = ""
) -> tuple[KernelFacts, list[Problem]]:
    """Facts and problems of one tile program, the frontend's problems among them.

    `text` is the module's source, which quick fixes read. Problems come in the order of the text.
    """
    subject = Subject(program, parse_target(target), text)
    found = unique([*program.problems, *_verify(subject), *(p for c in CHECKS for p in c(subject))])
    return kernel_facts(subject), found


def _verify(subject: Subject) -> Iterator[Problem]:
    """Each tile operation's own rules."""
    for record in subject.records:
        op = TILE_OPS.get(record.op)
        if op is not None:
            for problem in op.verify(record, subject.context):
                yield soften(problem, record.context)


def unique(problems: Iterable[Problem]) -> list[Problem]:
    """One problem per rule and place, the gravest: a statement traced several times is one mistake."""
    kept: dict[tuple[object, ...], Problem] = {}
    for problem in problems:
        key = (problem.rule, problem.span)
        before = kept.get(key)
        if before is None or problem.severity.rank < before.severity.rank:
            kept[key] = problem
    return sorted(kept.values(), key=lambda p: (p.span, p.severity.rank, p.rule))
