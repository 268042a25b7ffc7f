"""Warp specialisation for Hopper: one warp group more fetches tiles by TMA while the others compute.

In:  a tile function with one pipelined loop, not inside another one, in a launch of 128 or 256 threads.
Out: the same with 128 threads more, whose first one issues the loop's copies into S versions of their tiles
     as these become free; the author's threads run everything else as a team (`ir.teams`), wait for each
     version and free it when it is read. A T.gemm that is the only other statement of the loop goes on while
     the next one begins. Two mbarriers for each version, `loaded` and `freed`, order the two.
Not: kernels with thread code, barriers or addresses of their own, and copies that `plan_pipelines` would not
     run early or that TMA cannot do: None is returned for those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.tile_ops import seq
from tilelang.layout.shared import matrix_operand
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.tma import TmaCopy
from tilelang.passes.accesses import all_accesses
from tilelang.passes.guard_bounds import safe_values
from tilelang.passes.plan_pipelines import STAGES, Producer, covered_producers, read_version, versioned
from tilelang.passes.walk import (
    bits_of,
    calls,
    children,
    constant,
    index,
    loop_kind,
    remake,
    shape_of,
    substitute,
    uses,
    variables,
    walk,
)

GROUP, _WARP = 128, 32  # threads of a warp group, of a warp
_TILE_OPS = frozenset(
    {tile_ops.COPY, tile_ops.GEMM, tile_ops.FILL, tile_ops.REDUCE, tile_ops.SCAN, tile_ops.ASSUME}
)
# Threads that compute -> registers of one of them, of one that fetches, blocks on a multiprocessor at least.
_REGISTERS = {128: (216, 40, 2), 256: (240, 24, 1)}
_MOST_BOX, _UNIT = 256, 16  # extent of a TMA box, bytes that its rows and strides are multiples of


def specialise_warps(func: X.PrimFunc) -> tuple[X.PrimFunc, int] | None:
    """The specialised function, and how many of its blocks a multiprocessor should hold; None where the pass
    does not apply.
    """
    axes = [s for s in walk(func.body) if isinstance(s, X.AttrStmt) and _is_thread(s)]
    if len(axes) != 1 or constant(axes[0].value) not in _REGISTERS:
        return None
    launch = axes[0]
    work = _Specialiser(func, launch)
    body = work.run()
    if body is None:
        return None
    threads = int(launch.value)

    def relaunch(stmt: Any) -> Any:
        if isinstance(stmt, X.AttrStmt) and stmt.same_as(launch):
            more = X.const(threads + GROUP, "int32")
            return X.AttrStmt(stmt.node, stmt.attr_key, more, body, stmt.span)
        return remake(stmt, relaunch)

    return func.with_body(relaunch(func.body)), _REGISTERS[threads][2]


def _is_thread(stmt: X.AttrStmt) -> bool:
    return str(stmt.node.thread_tag).startswith("threadIdx")


class _Specialiser:
    def __init__(self, func: X.PrimFunc, launch: X.AttrStmt) -> None:
        self._func, self._body = func, launch.body
        self._thread: ir.Var = launch.node.var
        self._threads = int(launch.value)

    def run(self) -> Any | None:
        """The body of the new launch."""
        parts = _flat(self._body)
        loops = [s for s in walk(self._body) if loop_kind(s) == "Pipelined" and _stages(s) >= 2]
        if len(loops) != 1 or not any(p.same_as(loops[0]) for p in parts) or not self._plain():
            return None
        loop = loops[0]
        producers = covered_producers(self._func.body, loop)
        before = parts[: next(k for k, p in enumerate(parts) if p.same_as(loop))]
        bound = [p for p in before if isinstance(p, X.Bind)]
        if not producers or not all(self._by_tma(p) for p in producers):
            return None
        if not self._runs_alone(loop, producers, bound):
            return None
        return self._make(parts, loop, producers, bound)

    # Whether it may be done

    def _plain(self) -> bool:
        """Whether threads are not the author's: no thread numbers, no instructions, no views of tiles."""
        if uses(self._body, {self._thread.__chandle__()}):
            return False
        if any(isinstance(s, X.DeclBuffer | X.While) for s in walk(self._body)):
            return False
        foreign = [c for c in calls(self._body) if isinstance(c.op, ir.Op) and _is_foreign(str(c.op.name))]
        return not foreign

    def _by_tma(self, p: Producer) -> bool:
        """Whether the hardware can do this copy, for all that is known now."""
        copy, tensor = p.copy, p.copy.src.source
        bits = bits_of(str(tensor.dtype))
        shape, extents = shape_of(p.buffer), [constant(r.extent) for r in copy.src.region]
        if copy.disable_tma or copy.prefer_instruction in ("cp_async", "sync") or len(shape) != 2:
            return False
        if str(tensor.dtype) != str(p.buffer.dtype) or bits not in (8, 16, 32) or len(tensor.shape) > 5:
            return False
        if [n for n in extents if n != 1] != [n for n in shape if n != 1] or extents[-1] in (None, 1):
            return False
        if shape[-1] * bits // 8 % _UNIT or (
            matrix_operand(shape, bits).kind != "swizzle" and shape[-1] > _MOST_BOX
        ):
            return False
        strides = list(tensor.strides) or _row_strides(tensor.shape)
        numbers = [constant(s) for s in strides]
        if numbers[-1] != 1 or any(n is None or n * bits // 8 % _UNIT for n in numbers[:-1]):
            return False
        return safe_values(self._func).get(str(tensor.name), 0) == 0

    def _runs_alone(self, loop: X.For, producers: list[Producer], bound: list[Any]) -> bool:
        """Whether the fetching thread can know all that its copies depend on."""
        written = {a.buffer.__chandle__() for a in all_accesses(self._body) if a.mode == "write"}
        given = [loop.min, loop.extent, *(b.value for b in bound)]
        given += [e for p in producers for r in p.copy.src.region for e in (r.min, r.extent)]
        read = [v for e in given for v in variables(X.Evaluate(e) if isinstance(e, ir.Expr) else e)]
        known = {b.var.__chandle__() for b in bound} | {loop.loop_var.__chandle__()}
        free = {v.__chandle__() for v in _defined(self._body)} - known
        for v in read:
            if X.is_buffer_var(v) and (v.scope() != "global" or v.__chandle__() in written):
                return False
            if v.__chandle__() in free:
                return False
        return not any(p.copy.src.source.__chandle__() in written for p in producers)

    # What becomes of it

    def _make(self, parts: list[Any], loop: X.For, producers: list[Producer], bound: list[Any]) -> Any:
        stages, at = _stages(loop), loop.span
        versions = {p.buffer.__chandle__(): versioned(p.buffer, stages) for p in producers}
        loaded, freed = (
            X.decl_buffer((stages,), "uint64", name, scope="shared") for name in ("loaded", "freed")
        )
        held = [p for p in parts if isinstance(p, X.AllocBuffer) and p.buffer.__chandle__() not in versions]
        own = [p for p in parts if not isinstance(p, X.AllocBuffer)]
        work = self._consumer(loop, producers, versions, loaded, freed)
        consumed = [work if p.same_as(loop) else p for p in own]
        first = X.const(self._threads, "int32")
        grown, shrunk, _ = _REGISTERS[self._threads]
        fetch = self._producer(loop, producers, versions, loaded, freed)
        return seq(
            [
                *held,
                *(X.AllocBuffer(b, span=at) for b in (*versions.values(), loaded, freed)),
                self._begin(loaded, freed, stages, at),
                X.IfThenElse(
                    X.GE(self._thread, first),
                    seq(
                        [
                            _call("tl.setmaxnreg_dec", [index(shrunk)], at),
                            X.IfThenElse(X.EQ(self._thread, first), seq([*bound, fetch]), None, at),
                        ]
                    ),
                    seq([_call("tl.setmaxnreg_inc", [index(grown)], at), *consumed]),
                    at,
                ),
            ]
        )

    def _begin(self, loaded: ir.Var, freed: ir.Var, stages: int, at: Any) -> Any:
        made = [
            _call("tl.mbarrier_init", [_place(barrier, index(k)), index(count)], at)
            for barrier, count in ((loaded, 1), (freed, self._threads // _WARP))
            for k in range(stages)
        ]
        here = X.IfThenElse(X.EQ(self._thread, index(0)), seq(made), None, at)
        return seq([here, _call("tl.fence_barrier_init", [], at), _call(tile_ops.SYNC, [], at)])

    def _producer(
        self,
        loop: X.For,
        producers: list[Producer],
        versions: dict[int, ir.Var],
        loaded: ir.Var,
        freed: ir.Var,
    ) -> Any:
        stages, at = _stages(loop), loop.span
        k = X.Var(str(loop.loop_var.name), loop.loop_var.ty)
        number = _from_zero(k, loop)
        version = X.FloorMod(number, index(stages))
        phase = X.FloorMod(X.FloorDiv(number, index(stages)), index(2))
        free = X.Cast("uint32", X.bitwise_xor(phase, index(1)))
        body = [_call("tl.mbarrier_wait", [_place(freed, version), free], at)]
        for p in producers:
            tile = versions[p.buffer.__chandle__()]
            mins, extents = [version, *(r.min for r in p.copy.dst.region)], [index(1)]
            extents += [r.extent for r in p.copy.dst.region]
            src, dst = substitute(p.copy.src, {loop.loop_var: k}), tile_ops.region(tile, mins, extents)
            policy = p.copy.eviction_policy
            body.append(TmaCopy(src, dst, _place(loaded, version), policy, p.stmt.span).call())
        body.append(_call("tl.mbarrier_arrive", [_place(loaded, version)], at))
        notes = {LOOP_KIND: "serial"}
        return X.For(k, loop.min, loop.extent, X.ForKind.SERIAL, seq(body), annotations=notes, span=at)

    def _consumer(
        self,
        loop: X.For,
        producers: list[Producer],
        versions: dict[int, ir.Var],
        loaded: ir.Var,
        freed: ir.Var,
    ) -> Any:
        stages, at = _stages(loop), loop.span
        taken = {p.stmt.__chandle__() for p in producers}
        number = _from_zero(loop.loop_var, loop)
        version = X.FloorMod(number, index(stages))
        rest = [s for s in _flat(loop.body) if s.__chandle__() not in taken]
        phase = X.Cast("uint32", X.FloorMod(X.FloorDiv(number, index(stages)), index(2)))
        wait = _call("tl.mbarrier_wait", [_place(loaded, version), phase], at)
        notes = {LOOP_KIND: "serial"}
        gemm, clear = _only_gemm(rest, loop)
        if gemm is None:
            body = [wait, *(read_version(s, versions, version) for s in rest)]
            body.append(_call("tl.mbarrier_arrive_warp", [_place(freed, version)], at))
            return X.For(
                loop.loop_var, loop.min, loop.extent, X.ForKind.SERIAL, seq(body), annotations=notes, span=at
            )
        going_on = replace(gemm, asynchronous=True, clear_accum=False).call()
        before = X.FloorMod(number + (stages - 1), index(stages))
        free = X.IfThenElse(
            X.GT(number, index(0)), _call("tl.mbarrier_arrive_warp", [_place(freed, before)], at), None, at
        )
        product = read_version(going_on, versions, version)
        body = [wait, product, _call(tile_ops.WGMMA_WAIT, [index(1)], at), free]
        made = X.For(
            loop.loop_var, loop.min, loop.extent, X.ForKind.SERIAL, seq(body), annotations=notes, span=at
        )
        return seq([clear, made, _call(tile_ops.WGMMA_WAIT, [index(0)], at)])


def _only_gemm(rest: list[Any], loop: X.For) -> tuple[Gemm | None, Any | None]:
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


def _is_foreign(name: str) -> bool:
    if name.startswith("tl."):
        return name not in _TILE_OPS
    return name in ("tirx.call_extern", "tirx.call_pure_extern")


def _defined(stmt: Any) -> Iterator[ir.Var]:
    """Variables that statements define: scalars and loop variables."""
    for part in walk(stmt):
        if isinstance(part, X.Bind):
            yield part.var
        elif isinstance(part, X.For):
            yield part.loop_var


def _stages(loop: X.For) -> int:
    return int(loop.annotations[STAGES]) if STAGES in loop.annotations else 0


def _from_zero(k: Any, loop: X.For) -> Any:
    return k if constant(loop.min) == 0 else k - loop.min


def _flat(body: Any) -> list[Any]:
    return [s for part in children(body) for s in _flat(part)] if isinstance(body, X.SeqStmt) else [body]


def _row_strides(shape: Any) -> list[Any]:
    total: Any = 1
    found: list[Any] = []
    for n in reversed(list(shape)):
        found.insert(0, total)
        known, number = constant(total), constant(n)
        total = known * number if known is not None and number is not None else None
    return found


def _call(name: str, args: list[Any], at: Any) -> Any:
    return X.Evaluate(tile_ops.call(name, args, span=at), at)


def _place(buffer: ir.Var, at: Any) -> Any:
    return X.address_of(X.BufferLoad(buffer, [at]))
