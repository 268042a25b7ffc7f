"""What takes part in layout inference: the buffers of a launch and the statements that work on fragments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir, sym
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import layout as rules
from tilelang.ir import tile_ops
from tilelang.ir.spans import place_of
from tilelang.ir.teams import Team
from tilelang.layout.annotated import Annotation, annotations_of
from tilelang.layout.fragment import Fragment
from tilelang.layout.shared import SharedLayout, linear, strided
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_sp import gemm_of
from tilelang.ops.reduce import Reduce
from tilelang.ops.tma import TmaCopy
from tilelang.passes.accesses import accesses
from tilelang.passes.fragment_owners import FragmentOwners
from tilelang.passes.parallel_loop import ParallelLoop, parallel_loop
from tilelang.passes.walk import FRAGMENT, assume, bits_of, calls, children, constant, loop_kind, shape_of


@dataclass(frozen=True)
class LooseAccess:
    """An element of a fragment that thread code touches, and where: the serial loops around with their ends,
    and the conditions that hold.
    """

    element: Any
    outer: dict[int, int]
    conditions: tuple[Any, ...]


@dataclass(frozen=True)
class Annotated:
    """A fragment whose layout the author wrote."""

    handle: int
    fragment: Fragment
    span: Any


class Parts:
    """Collected from a function by handles of buffers, each statement with the team that does it."""

    def __init__(self, func: X.PrimFunc, threads: int, target: str, teams: bool) -> None:
        self.buffers: dict[int, ir.Var] = {}  # fragments and shared ones
        self.shared: dict[int, SharedLayout] = {}  # row-major, or as annotated
        self.fixed: set[int] = set()  # shared buffers whose layout the author has decided
        self.annotated: list[Annotated] = []
        self.loose: dict[int, Any] = {}  # fragments touched outside loops and tile operations -> statement
        self.loosely: dict[int, list[LooseAccess]] = {}  # each of these accesses
        self.apart: set[int] = set()  # shared buffers that something else than a Parallel loop touches
        self._threads: dict[str, tuple[ir.Var, int]] = {}  # by axis, with their extents
        self.named: dict[int, Any] = {}  # what names stand for
        self._conditions: tuple[Any, ...] = ()
        self.pointed: dict[int, Any] = {}  # fragments whose address is taken: each thread's own registers
        # With the serial loops around: variable -> end.
        self.loops: list[tuple[ParallelLoop, dict[int, int], Team]] = []
        self.reductions: list[tuple[Any, Reduce, dict[int, int], Team]] = []
        self.gemms: list[tuple[Gemm, Team]] = []
        self.bulk: dict[int, list[Any]] = {}  # tiles that TMA copies: the parts of each copy
        self.owners = FragmentOwners(func, threads, teams)
        self.analyzer = sym.Analyzer()
        self._target = target
        self._annotations = annotations_of(func)
        self._assumed: list[Any] = []  # what T.assume says, which holds as long as this lives
        for param in filter(X.is_buffer_var, func.params):
            annotated = self._annotations.get(str(param.name))
            if annotated is not None and annotated.kind == "formula":
                stored = annotated.stored(len(param.shape), bits_of(str(param.dtype)))
                self.shared[param.__chandle__()] = stored
                self.buffers[param.__chandle__()] = param
        self._collect(func.body, {}, self.owners.block)

    @property
    def thread_vars(self) -> list[tuple[ir.Var, int]]:
        """The variables that differ between threads, and their extents; x, which counts neighbours, last."""
        return [self._threads[axis] for axis in sorted(self._threads, reverse=True)]

    def _collect(self, stmt: Any, outer: dict[int, int], team: Team) -> None:
        if isinstance(stmt, X.DeclBuffer) and stmt.buffer.scope() == FRAGMENT and stmt.buffer.strides:
            span, name = place_of(stmt.span), str(stmt.buffer.name)
            raise KernelError([rules.FRAGMENT_VIEW.at(span, buffer=name, target=self._target)])
        if loop_kind(stmt) != "Parallel":
            self.apart |= {a.buffer.__chandle__() for a in accesses(stmt)}
        if isinstance(stmt, X.AllocBuffer | X.DeclBuffer):
            self._allocation(stmt.buffer, stmt.span)
        elif loop_kind(stmt) == "Parallel":
            self.loops.append((parallel_loop(stmt), outer, self.owners.runs(stmt, team)))
            return
        elif isinstance(stmt, X.For):
            self.analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
            low, count = constant(stmt.min), constant(stmt.extent)
            if low is not None and count is not None:
                outer = outer | {stmt.loop_var.__chandle__(): low + count}
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.ASSUME):
            self._assumed.append(assume(self.analyzer, stmt.value))
            return
        elif isinstance(stmt, X.AttrStmt) and stmt.attr_key == "thread_extent":
            self.analyzer.bind(stmt.node.var, ir.Range.from_min_extent(0, stmt.value), True)
            if str(stmt.node.thread_tag).startswith("threadIdx"):
                self._threads[str(stmt.node.thread_tag)] = (stmt.node.var, int(stmt.value))
        elif isinstance(stmt, X.Bind):
            self.named[stmt.var.__chandle__()] = stmt.value
        elif isinstance(stmt, X.Evaluate) and (gemm := gemm_of(stmt.value)) is not None:
            self.gemms.append((gemm, self.owners.runs(stmt, team)))
            return
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.TMA_COPY):
            copy = TmaCopy.read(stmt.value)
            if copy.rank is not None:
                return
            tile = copy.tile
            self.bulk.setdefault(tile.source.__chandle__(), []).append(tile.region)
            return
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.REDUCE):
            self.reductions.append((stmt, Reduce.read(stmt.value), outer, self.owners.runs(stmt, team)))
            return
        pointed = _pointed(stmt)
        for access in accesses(stmt):
            if access.buffer.scope() == FRAGMENT:
                handle = access.buffer.__chandle__()
                of_thread = any(access.element.same_as(e) for e in pointed)
                (self.pointed if of_thread else self.loose).setdefault(handle, stmt)
                if not of_thread:
                    one = LooseAccess(access.element, outer, self._conditions)
                    self.loosely.setdefault(handle, []).append(one)
        around = self._conditions
        for k, (child, inside) in enumerate(self.owners.children(stmt, team)):
            if isinstance(stmt, X.IfThenElse):
                self._conditions = (*around, X.Not(stmt.condition) if k else stmt.condition)
            self._collect(child, outer, inside)
        self._conditions = around

    def _allocation(self, buffer: ir.Var, span: Any) -> None:
        handle = buffer.__chandle__()
        if buffer.scope() == FRAGMENT or buffer.scope().startswith("shared"):
            self.buffers[handle] = buffer
        if buffer.scope().startswith("shared"):
            self.shared[handle] = row_major(buffer)
        annotated = self._annotations.get(str(buffer.name))
        if annotated is None:
            return
        if annotated.kind == "fragment":
            self._annotated_fragment(buffer, annotated, span)
        elif buffer.scope().startswith("shared"):
            self.shared[handle] = annotated.shared(shape_of(buffer), bits_of(str(buffer.dtype)))
            if annotated.kind != "auto":  # else what a gemm needs is better still
                self.fixed.add(handle)

    def _annotated_fragment(self, buffer: ir.Var, annotated: Annotation, span: Any) -> None:
        owner = self.owners.owner_of(buffer.__chandle__())
        fragment = annotated.fragment(owner.threads, owner.first)
        if fragment is None:
            name, threads = str(buffer.name), owner.threads
            problem = rules.FRAGMENT_ANNOTATION.at(place_of(span), buffer=name, threads=threads)
            raise KernelError([problem])
        self.annotated.append(Annotated(buffer.__chandle__(), fragment, span))


def _pointed(stmt: Any) -> list[Any]:
    """The elements whose addresses a plain statement takes."""
    if children(stmt):
        return []
    return [c.args[0] for c in calls(stmt) if isinstance(c.op, ir.Op) and c.op.name == "tirx.address_of"]


def row_major(buffer: ir.Var) -> SharedLayout:
    """The plain layout of a shared buffer: row-major, or the strides that a view was given."""
    bits = bits_of(str(buffer.dtype))
    strides = [constant(s) for s in buffer.strides]
    if not strides or None in strides:
        return linear(shape_of(buffer), bits)
    return strided(shape_of(buffer), tuple(s for s in strides if s is not None), bits)
