"""The tiles of a pipelined loop going round between the thread that fetches and the threads that compute.

Each tile has S versions. Two mbarriers for each, `loaded` and `freed`, say that it is there and that it may
be fetched anew. Where the loop is come to more than once, both sides count the iterations of all times in a
variable of their own, `done`: the one that fetches goes on with the tiles of the next time while the others
finish this one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.tile_ops import seq
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.tma import TmaCopy
from tilelang.passes.plan_pipelines import STAGES, Producer, read_version
from tilelang.passes.walk import children, constant, index, substitute


@dataclass(frozen=True)
class TileRing:
    """loop: the pipelined loop, `again` if it is come to more than once. producers: its copies. versions:
    their tiles in S versions, by handle. loaded, freed: a barrier for each version. done: the variable in
    which each side counts.
    """

    loop: X.For
    again: bool
    producers: tuple[Producer, ...]
    versions: Mapping[int, ir.Var]
    loaded: ir.Var
    freed: ir.Var
    done: ir.Var

    def fetching(self) -> Any:
        """What the one thread does that fetches."""
        loop, at = self.loop, self.loop.span
        k = X.Var(str(loop.loop_var.name), loop.loop_var.ty)
        before, number = self._number(k)
        version, phase = self._version(number), self._phase(number)
        free = X.Cast("uint32", X.bitwise_xor(phase, index(1)))
        body = [barrier_call("tl.mbarrier_wait", [place(self.freed, version), free], at)]
        for p in self.producers:
            tile = self.versions[p.buffer.__chandle__()]
            mins, extents = [version, *(r.min for r in p.copy.dst.region)], [index(1)]
            extents += [r.extent for r in p.copy.dst.region]
            src, dst = substitute(p.copy.src, {loop.loop_var: k}), tile_ops.region(tile, mins, extents)
            loaded, policy = place(self.loaded, version), p.copy.eviction_policy
            body.append(TmaCopy(src, dst, loaded, eviction_policy=policy, span=p.copy.span).call())
        body.append(barrier_call("tl.mbarrier_arrive", [place(self.loaded, version)], at))
        return seq([*before, self._looped(k, body), *self._counted()])

    def computing(self) -> Any:
        """What all others do, each version in its turn."""
        loop, at = self.loop, self.loop.span
        taken = {p.stmt.__chandle__() for p in self.producers}
        before, number = self._number(loop.loop_var)
        version = self._version(number)
        rest = [s for s in flat(loop.body) if s.__chandle__() not in taken]
        phase = X.Cast("uint32", self._phase(number))
        wait = barrier_call("tl.mbarrier_wait", [place(self.loaded, version), phase], at)
        gemm, clear = only_gemm(rest, loop)
        if gemm is None:
            body = [wait, *(read_version(s, self.versions, version) for s in rest), self._free(version)]
            return seq([*before, self._looped(loop.loop_var, body), *self._counted()])
        begun = replace(gemm, asynchronous=True, clear_accum=False).call()
        first = X.GT(from_zero(loop.loop_var, loop), index(0))
        free = X.IfThenElse(first, self._free(self._version(number + (self.stages - 1))), None, at)
        body = [
            wait,
            read_version(begun, self.versions, version),
            barrier_call(tile_ops.WGMMA_WAIT, [index(1)], at),
            free,
        ]
        made = self._looped(loop.loop_var, body)
        last = barrier_call(tile_ops.WGMMA_WAIT, [index(0)], at)
        return seq([clear, *before, made, last, *self._last_freed(before), *self._counted()])

    @property
    def stages(self) -> int:
        return stages_of(self.loop)

    def _number(self, k: Any) -> tuple[list[Any], Any]:
        """What stands before the loop, and which iteration of all times `k` is."""
        number = from_zero(k, self.loop)
        if not self.again:
            return [], number
        so_far = X.Var("so_far", "int32")
        return [X.Bind(so_far, X.BufferLoad(self.done, [index(0)]), self.loop.span)], so_far + number

    def _version(self, number: Any) -> Any:
        """`number` is no less than 0, which nobody can see where it was counted."""
        return X.truncmod(number, index(self.stages))

    def _phase(self, number: Any) -> Any:
        return X.truncmod(X.truncdiv(number, index(self.stages)), index(2))

    def _free(self, version: Any) -> Any:
        return barrier_call("tl.mbarrier_arrive_warp", [place(self.freed, version)], self.loop.span)

    def _last_freed(self, before: list[Any]) -> list[Any]:
        """The version of the last product, which the next time waits for."""
        if not self.again:
            return []
        free = self._free(self._version(before[0].var + (self.loop.extent - 1)))
        if (constant(self.loop.extent) or 0) > 0:
            return [free]
        return [X.IfThenElse(X.GT(self.loop.extent, index(0)), free, None, self.loop.span)]

    def _counted(self) -> list[Any]:
        if not self.again:
            return []
        extent = self.loop.extent
        many = extent if constant(extent) is not None else X.Max(extent, index(0))
        total = X.BufferLoad(self.done, [index(0)]) + many
        return [X.BufferStore(self.done, total, [index(0)], self.loop.span)]

    def _looped(self, k: Any, body: list[Any]) -> Any:
        loop, notes = self.loop, {LOOP_KIND: "serial"}
        return X.For(k, loop.min, loop.extent, X.ForKind.SERIAL, seq(body), annotations=notes, span=loop.span)


def only_gemm(rest: list[Any], loop: X.For) -> tuple[Gemm | None, Any | None]:
    """The gemm that is all of the loop's work, and what clears its accumulator before the loop; None where it
    must be waited for at once.
    """
    only = rest[0].value if len(rest) == 1 and isinstance(rest[0], X.Evaluate) else None
    if only is None or not tile_ops.is_call(only, tile_ops.GEMM):
        return None, None
    gemm = Gemm.read(only)
    clear = gemm.clear_accum
    if constant(clear) == 0:
        return gemm, None
    at_first = isinstance(clear, X.EQ) and isinstance(clear.a, ir.Var) and clear.a.same_as(loop.loop_var)
    if at_first and constant(clear.b) == constant(loop.min) is not None and (constant(loop.extent) or 0) > 0:
        return gemm, Fill(gemm.c, X.const(0, str(gemm.c.source.dtype)), gemm.span).call()
    return None, None


def stages_of(loop: X.For) -> int:
    """How many versions of its tiles a loop asks for."""
    return int(loop.annotations[STAGES]) if STAGES in loop.annotations else 0


def from_zero(k: Any, loop: X.For) -> Any:
    """The iteration `k`, counted from 0."""
    return k if constant(loop.min) == 0 else k - loop.min


def flat(body: Any) -> list[Any]:
    """The statements of nested sequences."""
    return [s for part in children(body) for s in flat(part)] if isinstance(body, X.SeqStmt) else [body]


def barrier_call(name: str, args: list[Any], at: Any) -> Any:
    """The statement of an operation on barriers."""
    return X.Evaluate(tile_ops.call(name, args, span=at), at)


def place(buffer: ir.Var, at: Any) -> Any:
    """The address of a barrier."""
    return X.address_of(X.BufferLoad(buffer, [at]))
