"""parallel-reduction-race: iterations of one T.Parallel that read, change and write back the same element."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.analysis.subject import Subject, soften
from tilelang.diagnostics.problem import Problem
from tilelang.diagnostics.rules.order import PARALLEL_REDUCTION_RACE, PARALLEL_WRITE_RACE
from tilelang.ir.prove import free_vars
from tilelang.ir.tile_program import Store, walk
from tilelang.ir.values import Unknown, Value, as_int, show
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip
from tvm_ffi import structural_equal, structural_walk  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """Stores to shared and global memory; a fragment element has one owner, which iterates one by one."""
    for node in walk(subject.program.body):
        if not isinstance(node, Store) or node.buffer.scope not in ("shared", "global"):
            continue
        if node.context.guards or any(isinstance(v, Unknown) for v in (node.value, *node.indices)):
            continue
        racing = _unused_parallel(subject, node)
        if not racing or not _no_hidden_index(subject, node):
            continue
        if _reads_itself(node):
            rule = PARALLEL_REDUCTION_RACE
        elif set(racing) & free_vars(node.value):
            rule = PARALLEL_WRITE_RACE  # the values may still be equal, which is permitted
        else:
            continue
        names = ", ".join(v.name for v in racing)
        problem = rule.at(node.span, related=declared(node.buffer), vars=names, access=_cell(node))
        yield soften(problem, node.context)


def _unused_parallel(subject: Subject, node: Store) -> list[ir.Var]:
    """Parallel variables with several iterations that do not choose the element."""
    used = {v for index in node.indices for v in free_vars(index)}
    return [
        v
        for v in node.context.parallel_vars()
        if v not in used and v in subject.ranges and (as_int(subject.ranges[v][1]) or 0) >= 2
    ]


def _reads_itself(node: Store) -> bool:
    """Whether the new value is made from the old one."""
    if not isinstance(node.value, ir.Expr):
        return False
    loads: list[ir.TensorLoad] = []
    structural_walk(node.value, (ir.TensorLoad, loads.append))
    return any(
        load.source.same_as(node.buffer.var) and _same_indices(list(load.indices), list(node.indices))
        for load in loads
    )


def _same_indices(a: list[Value], b: list[Value]) -> bool:
    return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))


def _same(a: Value, b: Value) -> bool:
    left, right = as_int(a), as_int(b)
    if left is not None or right is not None:
        return left == right
    return bool(structural_equal(a, b))


def _no_hidden_index(subject: Subject, node: Store) -> bool:
    """Indices made only of loop and block variables: a value read before may hide a parallel variable."""
    known = {v for loop in node.context.loops for v in loop.vars}
    known |= set(subject.launch.block_vars) if subject.launch is not None else set()
    for index in node.indices:
        loads: list[ir.TensorLoad] = []
        if isinstance(index, ir.Expr):
            structural_walk(index, (ir.TensorLoad, loads.append))
        if loads or any(v not in known for v in free_vars(index)):
            return False
    return True


def _cell(node: Store) -> str:
    return f"{node.buffer.name}[{', '.join(show(i) for i in node.indices)}]"
