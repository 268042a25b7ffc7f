"""Layout inference: which thread works on which iteration, and which thread holds which element.

In:  a function whose elementwise work is Parallel loops, whose gemm and reduce are tile operations.
Out: a LayoutMap: a Fragment for every fragment buffer and for every Parallel loop with constant extents (and
     for the source of every reduction), a SharedLayout for every shared buffer (`spread_banks` has the last
     word on those that nothing imposes).
Not: changing the function. Nothing is ever assumed: at the end each loop's every access is checked, element
     by element, to lie in a register of the thread that runs the iteration.

A team (`ir.teams`) has layouts over its own threads; `fragment_owners` says which fragments are whose.

Levels, as in the language's contract: *strict*, here (what gemms impose; a fragment touched outside Parallel
loops and tile operations is held by every thread, unless its author laid it out and each thread touches
elements of its own), *common*, in `propagate_layouts` (from buffers with a
layout to loops touching them, and back), *free*, in `search_layouts` (what is left is tried out).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.analysis.out_of_step import read_whole
from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules import layout as rules
from tilelang.ir.spans import place_of
from tilelang.ir.teams import Team
from tilelang.layout.annotated import LOOP_LAYOUT, loop_annotation
from tilelang.layout.fragment import Fragment, replicated
from tilelang.layout.shared import SharedLayout, linear, matrix_operand
from tilelang.ops.gemm import Gemm
from tilelang.ops.tma import whole_atoms
from tilelang.passes.accesses import storages
from tilelang.passes.layout_conflicts import ANNOTATED, GEMM, pinned_twice, told
from tilelang.passes.layout_parts import Parts, row_major
from tilelang.passes.layout_sites import Site, around_site, loop_site, reduction_site
from tilelang.passes.layout_state import Cause, Conflict, State
from tilelang.passes.own_elements import own_element
from tilelang.passes.parallel_loop import ParallelLoop, VectorWidths
from tilelang.passes.propagate_layouts import Propagation
from tilelang.passes.search_layouts import search_layouts
from tilelang.passes.spread_banks import LaidOutLoop, spread_banks, times_around
from tilelang.passes.walk import FRAGMENT, bits_of, constant, shape_of


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
    return _Inference(func, Parts(func, threads, target, teams), gemm_rule, target).run()


def gemms_of(func: X.PrimFunc, threads: int) -> list[tuple[Gemm, Team]]:
    """The gemms of a launch, each with the team that does it."""
    return Parts(func, threads, "", teams=True).gemms


class _Inference:
    def __init__(self, func: X.PrimFunc, parts: Parts, gemm_rule: GemmRule, target: str) -> None:
        self._func, self._parts, self._gemm_rule, self._target = func, parts, gemm_rule, target
        self._propagation = Propagation(parts)
        self._state = State()
        self._shared = parts.shared
        self._sites: list[Site] = []
        self._viewed: set[int] = set()  # shared buffers with views, and the views

    def run(self) -> LayoutMap:
        self._strict()
        self._make_sites()
        self._propagation.propagate(self._state, self._sites)
        state = search_layouts(self._sites, self._state, self._propagation)
        for handle in self._parts.pointed.keys() - state.fragments.keys():  # foreign code alone knows them
            shape, threads = shape_of(self._parts.buffers[handle]), self._parts.owners.threads_of(handle)
            state.fragments[handle] = replicated(shape, threads)
        self._spread(state)
        exchanges = {}
        for site in self._sites:
            problem = self._propagation.mismatch(site, state)
            halves = self._propagation.halves(site, state) if problem is not None else None
            if halves is not None:
                exchanges[site.stmt.__chandle__()] = halves
            elif problem is not None:
                raise KernelError([told(Conflict(site, problem, state))])
        return LayoutMap(
            state.fragments,
            self._shared,
            state.loops,
            self._parts.buffers,
            exchanges,
            self._parts.owners.lent,
        )

    def _spread(self, state: State) -> None:
        """Exchange chunks in the row-major tiles that Parallel loops alone touch."""
        parts = self._parts
        imposed = parts.apart | parts.fixed | parts.bulk.keys() | self._viewed
        free = {h: s for h, s in self._shared.items() if s.kind == "linear" and h not in imposed}
        loops = [
            LaidOutLoop(loop, state.loops[loop.stmt.__chandle__()], times_around(outer))
            for loop, outer, _ in parts.loops
            if loop.shape is not None
        ]
        widths = VectorWidths(parts.analyzer, self._shared)
        thread_vars = {v.__chandle__() for v, _ in parts.thread_vars}
        self._shared.update(spread_banks(free, loops, thread_vars, widths))

    # Strict

    def _strict(self) -> None:
        self._annotated()
        views = storages(self._func.body)
        self._viewed = {*views, *views.values()}
        for handle in self._viewed & set(self._shared):  # row-major is the same for both shapes
            buffer = self._parts.buffers[handle]
            if buffer.scope().startswith("shared"):
                self._shared[handle] = row_major(buffer)
        self._gemms()
        for handle in self._parts.bulk.keys() - self._viewed - self._parts.fixed:
            if self._shared[handle].kind != "swizzle":
                self._shared[handle] = _bulk_layout(self._parts.buffers[handle], self._parts.bulk[handle])
        for handle, stmt in self._parts.loose.items():
            if handle in self._state.fragments and self._each_its_own(handle):
                continue
            shape, threads = shape_of(self._parts.buffers[handle]), self._parts.owners.threads_of(handle)
            self._pin(handle, replicated(shape, threads), "the access outside T.Parallel", stmt.span)

    def _annotated(self) -> None:
        """Fragments as their authors laid them out; then their views, for those may be annotated too."""
        for known in self._parts.annotated:
            self._state.fragments[known.handle] = known.fragment
            self._state.causes[known.handle] = Cause(ANNOTATED, known.span)
        for handle in list(self._state.fragments):
            self._propagation.share(handle, self._state, self._state.causes[handle])

    def _each_its_own(self, handle: int) -> bool:
        """Whether thread code touches, of a fragment that its author has laid out, each thread's elements."""
        parts, fragment = self._parts, self._state.fragments[handle]
        if fragment.threads != math.prod(n for _, n in parts.thread_vars):
            return False
        return all(own_element(fragment, a, parts.thread_vars, parts.named) for a in parts.loosely[handle])

    def _gemms(self) -> None:
        """What the gemms impose; shared tiles that have views stay as they are."""
        for gemm, team in self._parts.gemms:
            imposed = self._gemm_rule(gemm, team)
            roles = {o.source.__chandle__(): r for o, r in ((gemm.b, "B"), (gemm.a, "A"))}
            for handle, fragment in imposed.fragments.items():
                role = f"operand {roles[handle]}" if handle in roles else "accumulator"
                self._pin(handle, fragment, f"{GEMM} (its {role}, policy {gemm.policy})", gemm.span)
            for handle, layout in imposed.shared.items():
                if handle not in self._viewed and handle not in self._parts.fixed:
                    self._shared[handle] = layout

    def _pin(self, handle: int, fragment: Fragment, what: str, span: Any) -> None:
        known = self._state.fragments.get(handle)
        if known is not None and not known.equal(fragment):
            raise KernelError(
                [
                    pinned_twice(
                        str(self._parts.buffers[handle].name), self._state.causes[handle], Cause(what, span)
                    )
                ]
            )
        if known is None:
            self._state.fragments[handle] = fragment
            self._state.causes[handle] = Cause(what, span)
            self._propagation.share(handle, self._state, Cause(what, span))

    # Sites

    def _make_sites(self) -> None:
        widths = VectorWidths(self._parts.analyzer, self._shared)
        for loop, outer, team in self._parts.loops:
            if loop.shape is None:
                self._refuse_runtime_extent(loop)
                continue
            self._sites.append(loop_site(loop, outer, team.threads, widths, self._parts.owners.root))
            if (text := loop.note(LOOP_LAYOUT)) is not None:
                self._state.loops[loop.stmt.__chandle__()] = _annotated_loop(loop, str(text), team)
        for stmt, reduce, outer, team in self._parts.reductions:
            self._sites.append(reduction_site(stmt, reduce, outer, team.threads))
        for site in self._sites:
            self._replicate_constants(site)
        for site in self._sites:
            self._replicate_halos(site)

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


def _annotated_loop(loop: ParallelLoop, text: str, team: Team) -> Fragment:
    """The layout that the author gave a loop; dimensions of extent 1 count for nothing."""
    annotated, shape = loop_annotation(text), loop.shape or ()
    own = [n for n in annotated.shape if n != 1]
    if own != [n for n in shape if n != 1]:
        given = ", ".join(map(str, annotated.shape))
        extents = ", ".join(map(str, shape))
        raise KernelError([rules.LOOP_SHAPE.at(place_of(loop.span), given=given, extents=extents)])
    fragment = annotated.fragment(team.threads, team.first)
    if fragment is None:
        problem = rules.LOOP_ANNOTATION.at(place_of(loop.span), threads=team.threads)
        raise KernelError([problem])
    return replace(fragment, shape=shape)


def _bulk_layout(buffer: ir.Var, parts: list[Any]) -> SharedLayout:
    """The layout of a tile that TMA copies in these parts: swizzled if all are whole atoms, never padded."""
    shape, bits = shape_of(buffer), bits_of(str(buffer.dtype))
    swizzled = matrix_operand(shape, bits) if len(shape) > 1 else linear(shape, bits)
    if swizzled.kind != "swizzle":
        return linear(shape, bits)
    atom = swizzled.swizzle_bytes * 8 // bits
    return swizzled if all(whole_atoms(part, atom) for part in parts) else linear(shape, bits)
