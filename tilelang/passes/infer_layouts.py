"""Layout inference: which thread works on which iteration, and which thread holds which element.

In:  a function whose elementwise work is Parallel loops, whose gemm and reduce are tile operations.
Out: a LayoutMap: a Fragment for every fragment buffer and for every Parallel loop with constant extents (and
     for the source of every reduction), a SharedLayout for every shared buffer.
Not: changing the function. Nothing is ever assumed: at the end each loop's every access is checked, element
     by element, to lie in a register of the thread that runs the iteration.

A team (`ir.teams`) has layouts over its own threads; `fragment_owners` says which fragments are whose.

Levels, as in the language's contract: *strict* (what gemms impose; a fragment touched outside Parallel loops
and tile operations is held by every thread), *common* (from buffers with a layout to loops touching them, and
back), *free* (connected loops and fragments that are left: each loop is tried as the root, the cheapest
attempt without a conflict wins).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from tvm import ir, sym
from tvm import tirx as X

from tilelang.analysis.out_of_step import read_whole
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import layout as rules
from tilelang.ir import tile_ops
from tilelang.ir.spans import place_of
from tilelang.ir.teams import Team
from tilelang.layout.annotated import LOOP_LAYOUT, Annotation, annotations_of, loop_annotation
from tilelang.layout.fragment import (
    Fragment,
    partition,
    partition_rows,
    replicated,
)
from tilelang.layout.shared import SharedLayout, linear, matrix_operand, strided
from tilelang.layout.views import viewed
from tilelang.ops.gemm import Gemm
from tilelang.ops.reduce import Reduce
from tilelang.ops.tma import TmaCopy, whole_atoms
from tilelang.passes.accesses import accesses, storages
from tilelang.passes.fragment_owners import FragmentOwners
from tilelang.passes.layout_conflicts import (
    ANNOTATED,
    GEMM,
    Cause,
    Conflict,
    State,
    decided,
    pinned_twice,
    serves_use,
    told,
)
from tilelang.passes.loop_layouts import (
    Site,
    Use,
    around_site,
    contiguous_registers,
    fragment_layout,
    gathered,
    inner_loops,
    loop_dims,
    loop_layout,
    one_element_each,
    partition_plain,
    reduced_dims,
    spread,
)
from tilelang.passes.parallel_loop import LoopAccess, ParallelLoop, VectorWidths, in_memory, parallel_loop
from tilelang.passes.walk import (
    FRAGMENT,
    assume,
    bits_of,
    constant,
    loads,
    loop_kind,
    shape_of,
)

_RUN_BY_ALL = 256  # iterations that every thread may run where that alone is right
_LONGEST_RUN = 64  # elements that one thread holds in a row


@dataclass(frozen=True)
class GemmLayouts:
    """What a target's matrix instruction imposes: by buffer handle."""

    fragments: Mapping[int, Fragment]
    shared: Mapping[int, SharedLayout]


GemmRule = Callable[[Gemm, Team], GemmLayouts]


@dataclass(frozen=True)
class LayoutMap:
    """The result, keyed by handles of buffer variables and of statements."""

    fragments: Mapping[int, Fragment]
    shared: Mapping[int, SharedLayout]
    loops: Mapping[int, Fragment]
    buffers: Mapping[int, ir.Var]
    # Copies between fragments that lie in different threads: the loop -> layouts of its reading and writing
    # half.
    exchanges: Mapping[int, tuple[Fragment, Fragment]] = field(default_factory=dict)
    # Statements of the whole block that work on a team's fragments -> the team.
    lent: Mapping[int, Team] = field(default_factory=dict)

    def describe(self) -> dict[str, str]:
        """Buffer name -> one line, for hovers."""
        lines = {str(self.buffers[h].name): f.describe() for h, f in self.fragments.items()}
        lines |= {str(self.buffers[h].name): s.describe() for h, s in self.shared.items()}
        return lines

    def registers(self) -> dict[str, int]:
        """Fragment name -> elements that each thread holds."""
        return {str(self.buffers[h].name): f.registers for h, f in self.fragments.items()}


def infer_layouts(
    func: X.PrimFunc, threads: int, gemm_rule: GemmRule, target: str, teams: bool = False
) -> LayoutMap:
    """Run the inference for a block of `threads`; `target` is named in messages; `teams`: whether warps that
    run code of their own may share tile operations. Raises KernelError where no layout serves all uses.
    """
    return _Inference(func, threads, gemm_rule, target, teams).run()


def gemms_of(func: X.PrimFunc, threads: int) -> list[tuple[Gemm, Team]]:
    """The gemms of a launch, each with the team that does it."""
    found = _Inference(func, threads, lambda gemm, team: GemmLayouts({}, {}), "", True)
    return found.gemms()


# What takes part


class _Inference:
    def __init__(self, func: X.PrimFunc, threads: int, gemm_rule: GemmRule, target: str, teams: bool) -> None:
        self._target = target
        self._func, self._threads, self._gemm_rule = func, threads, gemm_rule
        self._state = State()
        self._shared: dict[int, SharedLayout] = {}
        self._buffers: dict[int, ir.Var] = {}
        self._sites: list[Site] = []
        self._loose: dict[int, Any] = {}  # fragments touched outside loops and tile operations -> statement
        self._loops: list[tuple[ParallelLoop, dict[int, int], Team]] = []
        self._reductions: list[tuple[Any, Reduce, dict[int, int], Team]] = []
        self._gemms: list[tuple[Gemm, Team]] = []
        self._bulk: dict[int, list[Any]] = {}  # tiles that TMA copies: the parts of each copy
        self._owners = FragmentOwners(func, threads, teams)
        self._analyzer = sym.Analyzer()
        self._annotations = annotations_of(func)
        self._assumed: list[Any] = []
        self._fixed: set[int] = set()  # shared buffers whose layout the author has decided
        for param in filter(X.is_buffer_var, func.params):
            annotated = self._annotations.get(str(param.name))
            if annotated is not None and annotated.kind == "formula":
                stored = annotated.stored(len(param.shape), bits_of(str(param.dtype)))
                self._shared[param.__chandle__()] = stored
                self._buffers[param.__chandle__()] = param

    def run(self) -> LayoutMap:
        self._collect(self._func.body, {}, self._owners.block)
        self._strict()
        self._make_sites()
        self._common(self._state, self._sites)
        self._free()
        exchanges = {}
        for site in self._sites:
            problem = self._mismatch(site, self._state)
            halves = self._halves(site, self._state) if problem is not None else None
            if halves is not None:
                exchanges[site.stmt.__chandle__()] = halves
            elif problem is not None:
                raise KernelError([told(Conflict(site, problem, self._state))])
        return LayoutMap(
            self._state.fragments,
            self._shared,
            self._state.loops,
            self._buffers,
            exchanges,
            self._owners.lent,
        )

    def gemms(self) -> list[tuple[Gemm, Team]]:
        """The gemms, each with the team that does it."""
        self._collect(self._func.body, {}, self._owners.block)
        return self._gemms

    # Copies between fragments

    def _halves(self, site: Site, state: State) -> tuple[Fragment, Fragment] | None:
        """The layouts of both sides of a copy between fragments, to be joined by shared memory; None
        elsewhere.
        """
        if not site.copy or len(site.uses) != 2:
            return None
        layouts = {}
        for use in site.uses:
            fragment = state.fragments.get(use.handle)
            layouts[use.mode] = loop_layout(site, use, fragment) if fragment is not None else None
        source, target = layouts.get("read"), layouts.get("write")
        return (source, target) if source is not None and target is not None else None

    # Collecting

    def _collect(self, stmt: Any, outer: dict[int, int], team: Team) -> None:
        if isinstance(stmt, X.DeclBuffer) and stmt.buffer.scope() == FRAGMENT and stmt.buffer.strides:
            span, name = place_of(stmt.span), str(stmt.buffer.name)
            raise KernelError([rules.FRAGMENT_VIEW.at(span, buffer=name, target=self._target)])
        if isinstance(stmt, X.AllocBuffer | X.DeclBuffer):
            self._allocation(stmt.buffer, stmt.span)
        elif loop_kind(stmt) == "Parallel":
            self._loops.append((parallel_loop(stmt), outer, self._owners.runs(stmt, team)))
            return
        elif isinstance(stmt, X.For):
            self._analyzer.bind(stmt.loop_var, ir.Range.from_min_extent(stmt.min, stmt.extent), True)
            low, count = constant(stmt.min), constant(stmt.extent)
            if low is not None and count is not None:
                outer = outer | {stmt.loop_var.__chandle__(): low + count}
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.ASSUME):
            self._assumed.append(assume(self._analyzer, stmt.value))
            return
        elif isinstance(stmt, X.AttrStmt) and stmt.attr_key == "thread_extent":
            self._analyzer.bind(stmt.node.var, ir.Range.from_min_extent(0, stmt.value), True)
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.GEMM):
            self._gemms.append((Gemm.read(stmt.value), self._owners.runs(stmt, team)))
            return
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.TMA_COPY):
            copy = TmaCopy.read(stmt.value)
            if copy.rank is not None:
                return
            tile = copy.tile
            self._bulk.setdefault(tile.source.__chandle__(), []).append(tile.region)
            return
        elif isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.REDUCE):
            self._reductions.append((stmt, Reduce.read(stmt.value), outer, self._owners.runs(stmt, team)))
            return
        for access in accesses(stmt):
            if access.buffer.scope() == FRAGMENT:
                self._loose.setdefault(access.buffer.__chandle__(), stmt)
        for child, inside in self._owners.children(stmt, team):
            self._collect(child, outer, inside)

    def _allocation(self, buffer: ir.Var, span: Any) -> None:
        handle = buffer.__chandle__()
        if buffer.scope() == FRAGMENT or buffer.scope().startswith("shared"):
            self._buffers[handle] = buffer
        if buffer.scope().startswith("shared"):
            self._shared[handle] = _row_major(buffer)
        annotated = self._annotations.get(str(buffer.name))
        if annotated is None:
            return
        if annotated.kind == "fragment":
            self._annotated_fragment(buffer, annotated, span)
        elif buffer.scope().startswith("shared"):
            self._shared[handle] = annotated.shared(shape_of(buffer), bits_of(str(buffer.dtype)))
            if annotated.kind != "auto":  # else what a gemm needs is better still
                self._fixed.add(handle)

    def _annotated_fragment(self, buffer: ir.Var, annotated: Annotation, span: Any) -> None:
        threads = self._owners.threads_of(buffer.__chandle__())
        fragment = annotated.fragment(threads)
        if fragment is None:
            problem = rules.FRAGMENT_ANNOTATION.at(place_of(span), buffer=str(buffer.name), threads=threads)
            raise KernelError([problem])
        self._pin(buffer.__chandle__(), fragment, ANNOTATED, span)

    # Strict

    def _strict(self) -> None:
        for handle in list(self._state.fragments):  # annotated ones: their views come after them
            self._share(handle, self._state, self._state.causes[handle])
        views = storages(self._func.body)
        viewed = {*views, *views.values()}  # one memory under two shapes: only row-major is the same for both
        for handle in viewed & set(self._shared):
            buffer = self._buffers[handle]
            if buffer.scope().startswith("shared"):
                self._shared[handle] = _row_major(buffer)
        for gemm, team in self._gemms:
            imposed = self._gemm_rule(gemm, team)
            roles = {o.source.__chandle__(): r for o, r in ((gemm.b, "B"), (gemm.a, "A"))}
            for handle, fragment in imposed.fragments.items():
                role = f"operand {roles[handle]}" if handle in roles else "accumulator"
                self._pin(handle, fragment, f"{GEMM} (its {role}, policy {gemm.policy})", gemm.span)
            for handle, layout in imposed.shared.items():
                if handle not in viewed and handle not in self._fixed:
                    self._shared[handle] = layout
        for handle in self._bulk.keys() - viewed - self._fixed:
            if self._shared[handle].kind != "swizzle":
                self._shared[handle] = _bulk_layout(self._buffers[handle], self._bulk[handle])
        for handle, stmt in self._loose.items():
            buffer = self._buffers[handle]
            self._pin(
                handle,
                replicated(shape_of(buffer), self._owners.threads_of(handle)),
                "the access outside T.Parallel",
                stmt.span,
            )

    def _pin(self, handle: int, fragment: Fragment, what: str, span: Any) -> None:
        known = self._state.fragments.get(handle)
        if known is not None and not known.equal(fragment):
            raise KernelError(
                [pinned_twice(str(self._buffers[handle].name), self._state.causes[handle], Cause(what, span))]
            )
        if known is None:
            self._state.fragments[handle] = fragment
            self._state.causes[handle] = Cause(what, span)
            self._share(handle, self._state, Cause(what, span))

    # Views of one memory

    def _share(self, handle: int, state: State, cause: Cause) -> bool:
        """Give the views of a fragment, and what it is a view of, the layouts that follow from its own."""
        changed = False
        for other in self._named_alike(handle):
            if other not in state.fragments:
                derived = self._derived(handle, other, state)
                if derived is not None:
                    state.fragments[other] = derived
                    state.causes.setdefault(other, cause)
                    changed = True
        return changed

    def _named_alike(self, handle: int) -> list[int]:
        """Other fragments over the same memory."""
        root = self._owners.root(handle)
        return [
            h
            for h, b in self._buffers.items()
            if h != handle and b.scope() == FRAGMENT and self._owners.root(h) == root
        ]

    def _derived(self, handle: int, other: int, state: State) -> Fragment | None:
        mine, its = self._buffers[handle], self._buffers[other]
        bits, new_bits = bits_of(str(mine.dtype)), bits_of(str(its.dtype))
        return viewed(state.fragments[handle], shape_of(its), bits, new_bits)

    def _agree(self, handle: int, state: State) -> bool:
        """Whether all names of a fragment's memory mean the same registers of the same threads."""
        for other in self._named_alike(handle):
            if other in state.fragments:
                derived = self._derived(handle, other, state)
                if derived is None or not derived.equal(state.fragments[other]):
                    return False
            elif self._derived(handle, other, state) is None:
                return False
        return True

    # Sites

    def _make_sites(self) -> None:
        widths = VectorWidths(self._analyzer, self._shared)
        for loop, outer, team in self._loops:
            if loop.shape is None:
                self._refuse_runtime_extent(loop)
                continue
            limit = loop.note("coalesced_width")
            vector = widths.loop(loop)
            if limit is not None:
                vector = min(vector, int(limit))
            inner = inner_loops(loop.body)
            uses = [
                Use(a.buffer, a.indices, a.mode, loop_dims(a.indices, loop.vars), self._plain_value(loop, a))
                for a in loop.accesses
                if a.buffer.scope() == FRAGMENT
            ]
            memory = any(in_memory(a.buffer) for a in loop.accesses)
            site = Site(loop.stmt, loop.vars, loop.shape, uses, loop.span, vector, outer | inner, memory)
            site.copy = loop.note("tl.op") == "copy" and isinstance(loop.body, X.BufferStore)
            site.by_author = loop.note("tl.op") is None
            site.threads = team.threads
            site.packed = any(in_memory(a.buffer) and bits_of(str(a.buffer.dtype)) < 8 for a in loop.accesses)
            self._sites.append(site)
            if (text := loop.note(LOOP_LAYOUT)) is not None:
                annotated = self._annotated_loop(loop, str(text), team.threads)
                self._state.loops[loop.stmt.__chandle__()] = annotated
        for stmt, reduce, outer, team in self._reductions:
            self._sites.append(self._reduction_site(stmt, reduce, outer))
            self._sites[-1].threads = team.threads
        for site in self._sites:
            self._replicate_constants(site)
        for site in self._sites:
            self._replicate_halos(site)

    def _plain_value(self, loop: ParallelLoop, access: LoopAccess) -> Any:
        """What a store writes, unless it depends on a fragment that the loop writes."""
        if access.mode != "write" or not isinstance(access.element, X.BufferStore):
            return None
        written = {self._owners.root(a.buffer.__chandle__()) for a in loop.accesses if a.mode == "write"}
        read = {self._owners.root(load.source.__chandle__()) for load in loads(access.element.value)}
        return None if written & read else access.element.value

    def _annotated_loop(self, loop: ParallelLoop, text: str, threads: int) -> Fragment:
        """The layout that the author gave a loop; dimensions of extent 1 count for nothing."""
        annotated, shape = loop_annotation(text), loop.shape or ()
        own = [n for n in annotated.shape if n != 1]
        if own != [n for n in shape if n != 1]:
            given = ", ".join(map(str, annotated.shape))
            extents = ", ".join(map(str, shape))
            raise KernelError([rules.LOOP_SHAPE.at(place_of(loop.span), given=given, extents=extents)])
        fragment = annotated.fragment(threads)
        if fragment is None:
            problem = rules.LOOP_ANNOTATION.at(place_of(loop.span), threads=threads)
            raise KernelError([problem])
        return replace(fragment, shape=shape)

    def _reduction_site(self, stmt: Any, reduce: Reduce, outer: dict[int, int]) -> Site:
        extents = tuple(int(r.extent) for r in reduce.src.region)
        loop_vars = tuple(X.Var(f"r{k}", "int32") for k in range(len(extents)))
        uses = []
        if reduce.src.source.scope() == FRAGMENT:
            indices = tuple(v + r.min for v, r in zip(loop_vars, reduce.src.region, strict=True))
            plain = tuple(k if constant(r.min) == 0 else None for k, r in enumerate(reduce.src.region))
            uses.append(Use(reduce.src.source, indices, "read", plain))
        if reduce.dst.source.scope() == FRAGMENT:
            uses.append(Use(reduce.dst.source, (), "reduce", reduced_dims(reduce)))
        return Site(stmt, loop_vars, extents, uses, reduce.span, 1, outer, False, reduce)

    def _replicate_constants(self, site: Site) -> None:
        """`frag[0]` in a Parallel loop is needed by all threads."""
        for use in site.uses:
            small = all(constant(i) is not None for i in use.indices)
            if use.mode == "read" and small and use.indices and use.handle not in self._state.fragments:
                shape = shape_of(use.buffer)
                self._pin(use.handle, replicated(shape, site.threads), "the constant index", site.span)

    def _replicate_halos(self, site: Site) -> None:
        """A small fragment that a loop reads in shifted places is held whole by every thread."""
        around = around_site(site)
        for handle in {u.handle for u in site.uses if u.mode != "reduce"} - self._state.fragments.keys():
            uses = [u for u in site.uses if u.handle == handle]
            shape = shape_of(uses[0].buffer)
            if read_whole(shape, [(u.mode, u.indices) for u in uses], around):
                self._pin(handle, replicated(shape, site.threads), "the shifted reads", site.span)

    # Common

    def _common(self, state: State, sites: list[Site]) -> None:
        """Propagate until nothing changes. Copies between fragments come last: they alone can bridge two
        layouts.
        """
        bridges = [s for s in sites if s.copy and len(s.uses) == 2]
        others = [s for s in sites if s not in bridges]
        changed = True
        while changed:
            changed = False
            for site in others:
                changed |= self._propagate(site, state)
            if not changed:
                changed = any(self._propagate(site, state) for site in bridges)

    def _propagate(self, site: Site, state: State) -> bool:
        """Lay out the loop from its fragments, then its fragments from the loop; whether anything was new."""
        changed = False
        if site.stmt.__chandle__() not in state.loops:
            changed = self._loop_from_fragments(site, state)
        if site.stmt.__chandle__() in state.loops:
            changed |= self._fragments_from_loop(site, state)
        return changed

    def _loop_from_fragments(self, site: Site, state: State) -> bool:
        known = [u for u in site.fragments() if u.handle in state.fragments and u.mode != "reduce"]
        known.sort(key=lambda u: u.mode != "write")
        for use in known:
            fragment = state.fragments[use.handle]
            if use.mode != "write" and fragment.replicas > 1:
                continue
            loop = loop_layout(site, use, fragment)
            if loop is not None:
                state.loops[site.stmt.__chandle__()] = loop
                state.sources[site.stmt.__chandle__()] = use.handle
                return True
        return False

    def _fragments_from_loop(self, site: Site, state: State) -> bool:
        loop, changed = state.loops[site.stmt.__chandle__()], False
        for use in site.uses:
            if use.handle in state.fragments:
                continue
            fragment = fragment_layout(site, use, loop)
            if fragment is not None:
                state.fragments[use.handle] = fragment
                what = "the loop" if site.reduce is None else "the reduction"
                cause = Cause(what, site.span, state.sources.get(site.stmt.__chandle__()))
                state.causes.setdefault(use.handle, cause)
                self._share(use.handle, state, cause)
                changed = True
        return changed

    # Free

    def _free(self) -> None:
        for component in self._components():
            largest = max(int(np.prod(s.extents)) for s in component)
            roots = [s for s in component if int(np.prod(s.extents)) == largest]
            others = [s for s in component if int(np.prod(s.extents)) < largest]
            best, met = self._cheapest(component, roots)
            if best is None and others:
                best, more = self._cheapest(component, others)
                met += more
            if best is None:
                # One between what is decided for good says more than one with a layout that was only tried.
                met.sort(key=lambda c: not decided(c, self._state))
                conflict = met[0] if met else Conflict(component[0], component[0].uses[0], self._state)
                raise KernelError([told(conflict)])
            self._state = best

    def _cheapest(self, component: list[Site], roots: list[Site]) -> tuple[State | None, list[Conflict]]:
        """The cheapest complete state with one of `roots` laid out first; the conflicts met."""
        best: tuple[float, State] | None = None
        met: list[Conflict] = []
        seen: set[Any] = set()
        for site in roots:
            for root in self._roots(site, self._state):
                # Loops of one shape that touch one fragment alike lead to the same state.
                touched = tuple((u.handle, u.dims) for u in site.uses)
                key = (touched, root.shape, root.digits, root.replicate, root.padded)
                if key in seen:
                    continue
                seen.add(key)
                state = self._state.copy()
                state.loops[site.stmt.__chandle__()] = root
                problem = self._attempt(component, state)
                if problem is not None:
                    met.append(problem)
                    continue
                cost = self._cost(component, state)
                if best is None or cost < best[0]:
                    best = (cost, state)
        return (best[1] if best is not None else None), met

    def _components(self) -> Iterator[list[Site]]:
        """Sites without a layout, connected through fragments without one; in program order."""
        left = [s for s in self._sites if s.stmt.__chandle__() not in self._state.loops]
        while left:
            component, handles = [left.pop(0)], set()
            grown = True
            while grown:
                grown = False
                for site in component:
                    handles |= {u.handle for u in site.uses if u.handle not in self._state.fragments}
                handles |= {other for h in handles for other in self._named_alike(h)}
                for site in list(left):
                    if any(u.handle in handles for u in site.uses):
                        left.remove(site)
                        component.append(site)
                        grown = True
            yield component

    def _roots(self, site: Site, state: State) -> Iterator[Fragment]:
        """Layouts that the loop may have: from fragments that are laid out already, then the usual
        partitions.
        """
        threads = site.threads
        if not site.uses and site.reduce is None:
            least = 2 if site.packed and site.vector > 1 else 1
            yield partition_plain(site.extents, threads, site.vector, least)
            return
        for use in site.fragments():
            fragment = state.fragments.get(use.handle)
            if fragment is None or use.mode == "reduce":
                continue
            for root in (loop_layout(site, use, fragment), spread(site, use, fragment)):
                if root is not None:
                    yield root
        vector = site.vector if site.memory else _register_vector(site)
        width = vector
        # Two elements that share a byte are one thread's, though some threads then have less to do.
        least = 2 if site.packed and width > 1 else 1
        while width > least and np.prod(site.extents) % (width * threads):
            width //= 2
        yield from self._roots_of_updates(site)
        yield partition(site.extents, threads, width)
        while vector > 1 and site.extents[-1] % vector:
            vector //= 2
        yield partition_rows(site.extents, threads, vector)

    def _roots_of_updates(self, site: Site) -> Iterator[Fragment]:
        """Layouts for loops of which several iterations write one element: these stay in one thread, or every
        thread runs all.
        """
        shared = [u for u in site.uses if u.mode == "write" and not one_element_each(site, u)]
        for use in shared:
            yield from gathered(site, use)
        if shared and np.prod(site.extents) <= _RUN_BY_ALL:
            yield replicated(site.extents, site.threads)

    def _attempt(self, component: list[Site], state: State) -> Conflict | None:
        """Complete `state` for the component; the conflict if there is one."""
        self._common(state, component)
        for site in component:
            if site.stmt.__chandle__() not in state.loops:
                self._choose(site, state)
                self._common(state, component)
        for site in component:
            problem = self._mismatch(site, state)
            if problem is not None and self._halves(site, state) is None:
                return Conflict(site, problem, state)
        return None

    def _choose(self, site: Site, state: State) -> None:
        """Give a loop that nothing determines the first layout that fits what is known; the first of all if
        none does."""
        handle, first = site.stmt.__chandle__(), None
        for root in itertools.chain(self._roots(site, state), _partitions(site)):
            first = first or root
            trial = state.copy()
            trial.loops[handle] = root
            self._fragments_from_loop(site, trial)
            if self._mismatch(site, trial) is None:
                state.loops[handle] = root
                return
        if first is not None:
            state.loops[handle] = first

    def _cost(self, component: list[Site], state: State) -> float:
        """Register slots, then memory instructions per thread."""
        handles = {u.handle for s in component for u in s.uses}
        slots = sum(state.fragments[h].registers for h in handles)
        moves = 0.0
        for site in component:
            loop = state.loops[site.stmt.__chandle__()]
            if self._mismatch(site, state) is not None:
                moves += 2 * loop.registers  # through shared memory
            if site.memory:
                moves += loop.registers / min(site.vector, contiguous_registers(loop))
        return slots + moves / 1024

    # Checking

    def _mismatch(self, site: Site, state: State) -> Use | None:
        """The first use that is not served by the layouts; None if all are."""
        loop = state.loops[site.stmt.__chandle__()]
        if site.reduce is not None and loop.by_dimension() is None:
            return site.uses[0] if site.uses else Use(site.reduce.src.source, (), "reduce", ())
        for use in site.uses:
            fragment = state.fragments.get(use.handle)
            if fragment is None or not self._agree(use.handle, state):
                return use
            if not serves_use(site, use, loop, state):
                return use
        return None

    # Messages

    def _refuse_runtime_extent(self, loop: ParallelLoop) -> None:
        for access in loop.accesses:
            if access.buffer.scope() == FRAGMENT:
                var, extent = next(
                    (v, e) for v, e in zip(loop.vars, loop.extents, strict=True) if constant(e) is None
                )
                problem = rules.FRAGMENT_RUNTIME_LOOP.at(
                    place_of(loop.span),
                    buffer=str(access.buffer.name),
                    var=str(var.name),
                    size=str(extent),
                    target=self._target,
                )
                raise KernelError([problem])


def _bulk_layout(buffer: ir.Var, parts: list[Any]) -> SharedLayout:
    """The layout of a tile that TMA copies in these parts: swizzled if all are whole atoms, never padded."""
    shape, bits = shape_of(buffer), bits_of(str(buffer.dtype))
    swizzled = matrix_operand(shape, bits) if len(shape) > 1 else linear(shape, bits)
    if swizzled.kind != "swizzle":
        return linear(shape, bits)
    atom = swizzled.swizzle_bytes * 8 // bits
    return swizzled if all(whole_atoms(part, atom) for part in parts) else linear(shape, bits)


def _row_major(buffer: ir.Var) -> SharedLayout:
    """The plain layout of a shared buffer: row-major, or the strides that a view was given."""
    bits = bits_of(str(buffer.dtype))
    strides = [constant(s) for s in buffer.strides]
    if not strides or None in strides:
        return linear(shape_of(buffer), bits)
    return strided(shape_of(buffer), tuple(s for s in strides if s is not None), bits)


def _partitions(site: Site) -> Iterator[Fragment]:
    """Runs of every length per thread: `f[i * 4 + j]` fits a fragment whose threads hold four elements in a
    row, whatever else the loop reads one by one.
    """
    total = int(np.prod(site.extents)) if site.uses else 0
    width = 2
    while total and total % (width * site.threads) == 0 and width <= _LONGEST_RUN:
        yield partition(site.extents, site.threads, width)
        width *= 2


def _register_vector(site: Site) -> int:
    """Lanes worth keeping together in registers: 16 bytes of the widest fragment."""
    bits = max((bits_of(str(u.buffer.dtype)) for u in site.uses), default=128)
    return max(1, 128 // bits)
