"""Races of kernels whose sizes are open: iterations that collide with tensors of few elements and of many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilelang.analysis.collisions import Collision, Touching, collisions
from tilelang.analysis.iterations import variables_behind
from tilelang.analysis.subject import Subject
from tilelang.analysis.tensor_use import usual_sizes
from tilelang.diagnostics.problem import Problem, Severity
from tilelang.ir.tile_program import Store

from tvm import ir  # isort: skip

_FEW = 2  # elements: what collides with them does so in every call but that of one element


def collisions_of_open_sizes(
    subject: Subject, node: Store, touching: Touching
) -> Iterator[tuple[Collision, Mapping[ir.Var, int]]]:
    """Collisions of a store with itself, with the sizes that were taken. None where no size decides where it
    writes, or the statement may not run; none either that take many elements, for there may be few.
    """
    if node.context.maybe or subject.assumptions:
        return
    behind = variables_behind(subject, node.context, (*node.indices, *node.context.parallel_vars()))
    sizes = {v: n for v, n in subject.shared(usual_sizes).items() if v in behind}
    few = dict.fromkeys(sizes, _FEW)
    if not sizes or next(collisions(subject, touching, touching, few), None) is None:
        return
    for met in collisions(subject, touching, touching, sizes):
        yield met, sizes


def given_sizes(problem: Problem, sizes: Mapping[ir.Var, int]) -> Problem:
    """A warning that names the sizes."""
    given = ", ".join(f"{v.name}={n}" for v, n in sizes.items())
    return replace(problem, severity=Severity.WARNING, message=f"with {given}: {problem.message}")
