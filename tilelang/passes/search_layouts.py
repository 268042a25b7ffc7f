"""Layouts that nothing determines: loops and fragments that are left, connected, are tried out.

Each loop of a component is laid out first in turn; the cheapest attempt without a conflict wins.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilelang.diagnostics.error import KernelError
from tilelang.layout.fragment import Fragment, partition, partition_rows, replicated
from tilelang.passes.layout_conflicts import decided, told
from tilelang.passes.layout_sites import Site
from tilelang.passes.layout_state import Conflict, State
from tilelang.passes.loop_layouts import (
    contiguous_registers,
    gathered,
    loop_layout,
    one_element_each,
    partition_plain,
    spread,
)
from tilelang.passes.propagate_layouts import Propagation
from tilelang.passes.walk import bits_of

_RUN_BY_ALL = 256  # iterations that every thread may run where that alone is right
_LONGEST_RUN = 64  # elements that one thread holds in a row


def search_layouts(sites: list[Site], state: State, propagation: Propagation) -> State:
    """`state`, completed for all `sites`. Raises KernelError where no layout serves all uses."""
    return _Search(sites, state, propagation).run()


class _Search:
    def __init__(self, sites: list[Site], state: State, propagation: Propagation) -> None:
        self._sites, self._state, self._propagation = sites, state, propagation

    def run(self) -> State:
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
        return self._state

    def _cheapest(self, component: list[Site], roots: list[Site]) -> tuple[State | None, list[Conflict]]:
        """The cheapest complete state with one of `roots` laid out first; the conflicts met."""
        best: tuple[float, State] | None = None
        met: list[Conflict] = []
        seen: set[Any] = set()
        for site in roots:
            for root in _roots(site, self._state):
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
                handles |= {other for h in handles for other in self._propagation.named_alike(h)}
                for site in list(left):
                    if any(u.handle in handles for u in site.uses):
                        left.remove(site)
                        component.append(site)
                        grown = True
            yield component

    def _attempt(self, component: list[Site], state: State) -> Conflict | None:
        """Complete `state` for the component; the conflict if there is one."""
        self._propagation.propagate(state, component)
        while (site := _next(component, state)) is not None:
            self._choose(site, state)
            self._propagation.propagate(state, component)
        for site in component:
            problem = self._propagation.mismatch(site, state)
            if problem is not None and self._propagation.halves(site, state) is None:
                return Conflict(site, problem, state)
        return None

    def _choose(self, site: Site, state: State) -> None:
        """Give a loop that nothing determines the first layout that fits what is known; the first of all if
        none does."""
        handle, first = site.stmt.__chandle__(), None
        for root in itertools.chain(_roots(site, state), _partitions(site)):
            first = first or root
            trial = state.copy()
            trial.loops[handle] = root
            self._propagation.fragments_from_loop(site, trial)
            if self._propagation.mismatch(site, trial) is None:
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
            if self._propagation.mismatch(site, state) is not None:
                moves += 2 * loop.registers  # through shared memory
            if site.memory:
                moves += loop.registers / min(site.vector, contiguous_registers(loop))
        return slots + moves / 1024


def _next(component: list[Site], state: State) -> Site | None:
    """The site without a layout to choose one for: the first that reads a fragment which has one, so that
    others follow it.
    """
    left = [s for s in component if s.stmt.__chandle__() not in state.loops]
    known = [s for s in left if any(u.handle in state.fragments for u in s.uses if u.mode != "reduce")]
    return next(iter(known or left), None)


def _roots(site: Site, state: State) -> Iterator[Fragment]:
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
    yield from _roots_of_updates(site)
    yield partition(site.extents, threads, width)
    while vector > 1 and site.extents[-1] % vector:
        vector //= 2
    yield partition_rows(site.extents, threads, vector)


def _roots_of_updates(site: Site) -> Iterator[Fragment]:
    """Layouts for loops of which several iterations write one element: these stay in one thread, or every
    thread runs all.
    """
    shared = [u for u in site.uses if u.mode == "write" and not one_element_each(site, u)]
    for use in shared:
        yield from gathered(site, use)
    if shared and np.prod(site.extents) <= _RUN_BY_ALL:
        yield replicated(site.extents, site.threads)


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
