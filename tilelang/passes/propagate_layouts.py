"""Layouts that follow from layouts: from fragments to the loops that touch them and back, and to views."""

from __future__ import annotations

from tilelang.layout.fragment import Fragment
from tilelang.layout.views import viewed
from tilelang.passes.layout_parts import Parts
from tilelang.passes.layout_sites import Site, Use
from tilelang.passes.layout_state import Cause, State, serves_use
from tilelang.passes.loop_layouts import fragment_layout, loop_layout
from tilelang.passes.walk import FRAGMENT, bits_of, shape_of


class Propagation:
    """How layouts spread among the parts of one launch. The states are the caller's."""

    def __init__(self, parts: Parts) -> None:
        self._buffers, self._owners = parts.buffers, parts.owners

    def propagate(self, state: State, sites: list[Site]) -> None:
        """Propagate until nothing changes. Copies between fragments come last: they alone can bridge two
        layouts.
        """
        bridges = [s for s in sites if s.copy and len(s.uses) == 2]
        others = [s for s in sites if s not in bridges]
        changed = True
        while changed:
            changed = False
            for site in others:
                changed |= self._at(site, state)
            if not changed:
                changed = any(self._at(site, state) for site in bridges)

    def _at(self, site: Site, state: State) -> bool:
        """Lay out the loop from its fragments, then its fragments from the loop; whether anything was new."""
        changed = False
        if site.stmt.__chandle__() not in state.loops:
            changed = self._loop_from_fragments(site, state)
        if site.stmt.__chandle__() in state.loops:
            changed |= self.fragments_from_loop(site, state)
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

    def fragments_from_loop(self, site: Site, state: State) -> bool:
        """Lay out what the loop touches as its iterations need it; whether anything was new."""
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
                self.share(use.handle, state, cause)
                changed = True
        return changed

    # Views of one memory

    def share(self, handle: int, state: State, cause: Cause) -> bool:
        """Give the views of a fragment, and what it is a view of, the layouts that follow from its own."""
        changed = False
        for other in self.named_alike(handle):
            if other not in state.fragments:
                derived = self._derived(handle, other, state)
                if derived is not None:
                    state.fragments[other] = derived
                    state.causes.setdefault(other, cause)
                    changed = True
        return changed

    def named_alike(self, handle: int) -> list[int]:
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

    # Checking

    def mismatch(self, site: Site, state: State) -> Use | None:
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

    def _agree(self, handle: int, state: State) -> bool:
        """Whether all names of a fragment's memory mean the same registers of the same threads."""
        for other in self.named_alike(handle):
            if other in state.fragments:
                derived = self._derived(handle, other, state)
                if derived is None or not derived.equal(state.fragments[other]):
                    return False
            elif self._derived(handle, other, state) is None:
                return False
        return True

    def halves(self, site: Site, state: State) -> tuple[Fragment, Fragment] | None:
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
