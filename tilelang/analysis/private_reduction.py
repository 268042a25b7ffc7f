"""parallel-reduction-race, for private scalars: every thread collects its own iterations of a T.Parallel.

`acc += A[i]` in the loop and `O[bx] = acc` behind it: each thread has an `acc`, and whichever thread writes
last writes the part of its own iterations. Kernels that go on with such a part on purpose name the threads,
or hand it to a call (a shuffle, an atomic, a reduction over the threads); about these nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from tilelang.analysis.parallel_reduction_race import reduction_of
from tilelang.analysis.subject import PRIVATE_SCOPES, Subject, soften
from tilelang.analysis.thread_names import names_threads
from tilelang.diagnostics.problem import Problem, Related
from tilelang.diagnostics.rules.order import PRIVATE_REDUCTION
from tilelang.ir.evaluate import is_pure_call
from tilelang.ir.expressions import loads_of
from tilelang.ir.prove import free_vars, operands_of
from tilelang.ir.tile_program import Alloc, Bind, Do, Evaluate, For, If, Node, Store, walk
from tilelang.ir.values import Buffer, as_int
from tilelang.ops.operands import declared

from tvm import ir  # isort: skip


def check(subject: Subject) -> Iterator[Problem]:
    """One problem for each scalar that a parallel loop collects into."""
    launch, program = subject.launch, subject.program
    if launch is None or not program.complete or subject.target.kind == "cpu" or (subject.threads or 1) <= 1:
        return
    if names_threads(launch):
        return
    for loop in _parallel_loops(launch.body):
        inside = list(walk([loop]))
        own = {n.buffer for n in inside if isinstance(n, Alloc)}
        told: set[Buffer] = set()
        for node in inside:
            if not isinstance(node, Store) or node.buffer in own | told or not _collects(node):
                continue
            told.add(node.buffer)
            use = _written_out(launch.body, inside, node.buffer)
            if use is not None:
                variables = ", ".join(v.name for v in loop.loop.vars)
                reduction = reduction_of(node, " on a tile, or ")
                problem = PRIVATE_REDUCTION.at(
                    node.span,
                    related=(Related(use.span, "written here"), *declared(node.buffer)),
                    buffer=node.buffer.name,
                    vars=variables,
                    instead=f"{reduction}T.alloc_reducer" if reduction else f"a serial loop over {variables}",
                    line=use.span.line,
                )
                yield soften(problem, node.context)


def _parallel_loops(nodes: list[Node]) -> Iterator[For]:
    """The outermost ones, of more than one iteration."""
    for node in nodes:
        if isinstance(node, For) and node.loop.kind == "Parallel":
            if all(as_int(e) != 1 for e in node.loop.extents):
                yield node
        elif isinstance(node, For):
            yield from _parallel_loops(node.body)
        elif isinstance(node, If):
            yield from _parallel_loops([*node.body, *node.orelse])


def _collects(node: Store) -> bool:
    """`acc = acc + ...` of a private scalar, or of one element of a private array."""
    return (
        node.buffer.scope in PRIVATE_SCOPES
        and node.buffer.known
        and isinstance(node.value, ir.Expr)
        and all(as_int(i) is not None for i in node.indices)
        and any(load.source.same_as(node.buffer.var) for load in loads_of(node.value))
    )


def _written_out(body: list[Node], inside: list[Node], buffer: Buffer) -> Store | None:
    """The store behind the loop whose value is made of the scalar by arithmetic alone, also by way of names
    and of other private scalars.

    None where anything else outside the loop uses or changes it.
    """
    within = {id(n) for n in inside}
    made_of = {buffer.var}
    behind, found = False, None
    for node in walk(body):
        if id(node) in within:
            behind = True
            continue
        match node:
            case Store() if node.buffer is buffer:
                if behind or (isinstance(node.value, ir.Expr) and free_vars(node.value)):
                    return None
            case Store() if _reads(node.value, made_of):
                if not behind or not _is_arithmetic(node.value):
                    return None
                if node.buffer.scope not in PRIVATE_SCOPES:
                    found = found or node
                elif node.buffer.known:
                    made_of.add(node.buffer.var)
                else:
                    return None
            case Bind() if _reads(node.value, made_of):
                if not behind or not _is_arithmetic(node.value):
                    return None
                made_of.add(node.var)
            case Evaluate() if _reads(node.value, made_of):
                return None
            case If() if _reads(node.condition, made_of):
                return None
            case Do() if any(b.known and b.var in made_of for b in _buffers(node)):
                return None
    return found


def _buffers(node: Do) -> Iterator[Buffer]:
    for operand in node.record.operands.values():
        region = getattr(operand.value, "buffer", operand.value)
        if isinstance(region, Buffer):
            yield region


def _reads(value: Any, made_of: Collection[ir.Var]) -> bool:
    return isinstance(value, ir.Expr) and any(v in made_of for v in free_vars(value))


def _is_arithmetic(value: Any) -> bool:
    """Whether nothing but arithmetic and functions of numbers stands in it: a shuffle or a reduction over the
    threads makes a whole of the parts.
    """
    if isinstance(value, ir.Call) and not is_pure_call(value):
        return False
    if not isinstance(value, ir.Expr) or isinstance(value, ir.Var):
        return True
    return all(_is_arithmetic(part) for part in operands_of(value))
