"""Warp specialisation for Hopper: one warp group more fetches tiles by TMA while the others compute.

In:  a tile function with one pipelined loop, not inside another one, in a launch of 128 or 256 threads.
Out: the same with 128 threads more, whose first one issues the loop's copies into S versions of their tiles
     as these become free; the author's threads run everything else as a team (`ir.teams`), wait for each
     version and free it when it is read. A T.gemm that is the only other statement of the loop goes on while
     the next one begins. Two mbarriers for each version, `loaded` and `freed`, order the two.
Not: kernels with thread code, barriers or addresses of their own, and copies that `plan_pipelines` would not
     run early or that TMA cannot do: a `Refusal` that says why is returned for those.

Whether it is worth it where nobody asks for it (`worth`): the threads that compute must be free to do so
while tiles arrive, which products by wgmma are and those by mma.sync are not; the loop must come back to a
version, else all copies are on their way anyhow; an iteration must be long beside two waits on barriers,
which 64×64×32 products are; and a multiprocessor must hold more than half the blocks that it would of the
plain kernel, whose other blocks compute too while tiles arrive. `SPLITS` gives it as many as shared memory
and fragments have room for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.safe_values import safe_values
from tilelang.ir.tile_ops import seq
from tilelang.layout.shared import matrix_operand
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm
from tilelang.ops.tma import TmaCopy
from tilelang.passes.accesses import all_accesses
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
_MOST_DIMENSIONS, _MOST_BOX, _UNIT = 5, 256, 16  # of a tensor map, its box, its rows and strides (bytes)
_ROOM = 44  # registers for all but fragments: addresses, numbers of loops, parts of results on their way
_AT_ONCE = 28  # registers of a thread that the compiler needs beside the accumulators of one wgmma
_OWN = 1024  # bytes of shared memory that a block has for itself
_REGISTERS, _MOST_REGISTERS = 65536, 255  # of a multiprocessor, of a thread
_LEAST_PRODUCTS = 64 * 64 * 32  # of an iteration, for it to be long beside two waits


@dataclass(frozen=True)
class Split:
    """How the registers of a multiprocessor are shared out among `blocks` blocks: those of one thread that
    computes and of one that fetches, and those that the launch gives each (`launched`), which together are
    as many (PTX ISA 9.7.19.5, setmaxnreg). Where `fetching` is 0 none are given away.
    """

    blocks: int
    launched: int
    computing: int
    fetching: int


# Threads that compute -> the splits, most blocks first.
SPLITS = {
    128: (Split(4, 64, 88, 40), Split(3, 80, 120, 40), Split(2, 128, 216, 40), Split(1, 255, 255, 0)),
    256: (Split(2, 80, 104, 32), Split(1, 168, 240, 24)),
}


@dataclass(frozen=True)
class Specialised:
    """The specialised function, and how many of its blocks a multiprocessor must have registers for."""

    func: X.PrimFunc
    blocks: int


@dataclass(frozen=True)
class Refusal:
    """Why a kernel is not specialised, as the end of a sentence. `obvious`: nobody expects that it is."""

    why: str
    obvious: bool = False


def specialise_warps(
    func: X.PrimFunc, shared_bytes: int, by_wgmma: Callable[[Gemm], bool], asked: bool, blocks: int | None
) -> Specialised | Refusal:
    """The specialised function, or why there is none.

    shared_bytes: of a multiprocessor. by_wgmma: which products go on by themselves. asked: do it even where
    it does not seem worth it. blocks: as many as the author wants on a multiprocessor, None to choose.
    """
    axes = [s for s in walk(func.body) if isinstance(s, X.AttrStmt) and _is_thread(s)]
    if len(axes) != 1 or constant(axes[0].value) not in SPLITS:
        counts = " or ".join(map(str, SPLITS))
        return Refusal(f"its blocks do not have {counts} threads")
    launch = axes[0]
    threads = int(launch.value)
    work = _Specialiser(func, launch)
    try:
        loop, producers, bound = work.find()
        split = work.split(loop, producers, shared_bytes, blocks)
        if not asked:
            worth(loop, by_wgmma)
            work.check_crowd(loop, producers, shared_bytes, split)
    except _Refused as refused:
        return refused.args[0]
    body = work.make(loop, producers, bound, split)

    def relaunch(stmt: Any) -> Any:
        if isinstance(stmt, X.AttrStmt) and stmt.same_as(launch):
            more = X.const(threads + GROUP, "int32")
            return X.AttrStmt(stmt.node, stmt.attr_key, more, body, stmt.span)
        return remake(stmt, relaunch)

    return Specialised(func.with_body(relaunch(func.body)), split.blocks)


class _Refused(Exception):
    """Carries a Refusal out."""


def _refuse(why: str, obvious: bool = False) -> _Refused:
    return _Refused(Refusal(why, obvious))


def worth(loop: X.For, by_wgmma: Callable[[Gemm], bool]) -> None:
    """Raises _Refused for a loop that is as fast without."""
    gemms = [Gemm.read(c) for c in calls(loop.body) if tile_ops.is_call(c, tile_ops.GEMM)]
    if not all(map(by_wgmma, gemms)):
        raise _refuse("a T.gemm of its loop is not done by wgmma")
    if not gemms:
        raise _refuse("its loop has no T.gemm", obvious=True)
    count, stages = constant(loop.extent), _stages(loop)
    if count is not None and count <= stages:
        raise _refuse(f"its loop's {count} iterations have their tiles on the way from the start")
    if sum(math.prod(g.shape) for g in gemms) < _LEAST_PRODUCTS:
        raise _refuse("an iteration of its loop multiplies too little")


def _is_thread(stmt: X.AttrStmt) -> bool:
    return str(stmt.node.thread_tag).startswith("threadIdx")


class _Specialiser:
    def __init__(self, func: X.PrimFunc, launch: X.AttrStmt) -> None:
        self._func, self._body = func, launch.body
        self._thread: ir.Var = launch.node.var
        self._threads = int(launch.value)

    def find(self) -> tuple[X.For, list[Producer], list[Any]]:
        """The loop, its copies, and the scalars before it. Raises _Refused."""
        parts = _flat(self._body)
        loops = [s for s in walk(self._body) if loop_kind(s) == "Pipelined" and _stages(s) >= 2]
        if len(loops) != 1:
            count = f"it has {len(loops) or 'no'} T.Pipelined loops of two stages or more"
            raise _refuse(count, obvious=not loops)
        loop = loops[0]
        if not any(p.same_as(loop) for p in parts):
            raise _refuse("its T.Pipelined loop stands inside another statement")
        self._check_plain()
        found = covered_producers(self._func.body, loop)
        producers = [p for p in found if isinstance(p, Producer)]
        before = parts[: next(k for k, p in enumerate(parts) if p.same_as(loop))]
        bound = [p for p in before if isinstance(p, X.Bind)]
        if not found:
            raise _refuse("none of its loop's copies may run early")
        for p in found:
            if not isinstance(p, Producer):
                raise _refuse(f"a loop of all threads gathers {p.buffer.name}", obvious=True)
        for p in producers:
            if (why := self._no_tma(p)) is not None:
                raise _refuse(f"TMA cannot fill {p.buffer.name}: {why}")
        self._check_alone(loop, producers, bound)
        return loop, producers, bound

    def split(self, loop: X.For, producers: list[Producer], shared_bytes: int, blocks: int | None) -> Split:
        """How registers are shared out. Raises _Refused where the fragments have no room."""
        held = _ROOM + sum(self._registers(b) for b in _allocated(self._body))
        shared = self._shared(loop, producers)
        # The compiler refuses an instruction whose registers are more than the launch gives a thread.
        gemms = [Gemm.read(c) for c in calls(self._body) if tile_ops.is_call(c, tile_ops.GEMM)]
        once = max([min(self._registers(g.c.source), g.shape[1] // 2, 128) for g in gemms], default=0)
        roomy = [s for s in SPLITS[self._threads] if s.computing >= held and s.launched >= once + _AT_ONCE]
        if blocks is not None:
            roomy = [s for s in roomy if s.blocks == blocks]
        if not roomy:
            raise _refuse(f"a thread needs about {held} registers, more than it would get")
        return next((s for s in roomy if s.blocks * (shared + _OWN) <= shared_bytes), roomy[-1])

    def check_crowd(self, loop: X.For, producers: list[Producer], shared_bytes: int, split: Split) -> None:
        """Raises _Refused where the plain kernel would have twice the blocks on a multiprocessor: as many as
        shared memory and the registers of its largest fragment leave room for (fragments that are not needed
        at once share registers). Two of three are no loss (an fp8 product with scales per block gains 17 %),
        one of two is (fp8, int8 and attention on 256 threads lose 7 to 22 %; H200, 1 December 2026).
        """
        largest = max(map(self._registers, _allocated(self._body)), default=0)
        plain = min(
            shared_bytes // (self._shared(loop, producers) + _OWN),
            _REGISTERS // (self._threads * min(_ROOM + largest, _MOST_REGISTERS)),
        )
        if plain >= 2 * split.blocks:
            raise _refuse(f"a multiprocessor would hold {split.blocks} of its blocks instead of {plain}")

    def _shared(self, loop: X.For, producers: list[Producer]) -> int:
        """Bytes of shared memory, every version counted. Raises _Refused where they are not known."""
        of_tiles = {p.buffer.__chandle__(): _stages(loop) for p in producers}
        tiles = [b for b in _allocated(self._body) if b.scope().startswith("shared")]
        if any(constant(n) is None for b in tiles for n in b.shape):
            raise _refuse("the size of a tile is known only at run time")
        return sum(
            math.prod(shape_of(b)) * bits_of(str(b.dtype)) // 8 * of_tiles.get(b.__chandle__(), 1)
            for b in tiles
        )

    def _registers(self, buffer: ir.Var) -> int:
        """Of one thread, about: a row's numbers are held by the four threads of a quad."""
        if buffer.scope() not in ("local.fragment", "local"):
            return 0
        shape = shape_of(buffer)
        elements = math.prod(shape)
        if buffer.scope() == "local.fragment":
            elements = -(-elements * (1 if len([n for n in shape if n > 1]) > 1 else 4) // self._threads)
        return -(-elements * bits_of(str(buffer.dtype)) // 32)

    # Whether it may be done

    def _check_plain(self) -> None:
        """Threads must not be the author's: no thread numbers, no instructions, no views of tiles."""
        if uses(self._body, {self._thread.__chandle__()}):
            raise _refuse("it uses the numbers of its threads")
        if any(isinstance(s, X.DeclBuffer | X.While) for s in walk(self._body)):
            raise _refuse("it has views of tiles, or while loops")
        foreign = [c for c in calls(self._body) if isinstance(c.op, ir.Op) and _is_foreign(str(c.op.name))]
        if foreign:
            name = str(foreign[0].op.name).split(".", 1)[-1]
            raise _refuse(f"it has code of single threads ({name})")

    def _no_tma(self, p: Producer) -> str | None:
        """Why the hardware cannot do this copy, for all that is known now; None if it can."""
        copy, tensor = p.copy, p.copy.src.source
        bits = bits_of(str(tensor.dtype))
        shape, extents = shape_of(p.buffer), [constant(r.extent) for r in copy.src.region]
        if copy.disable_tma or copy.prefer_instruction in ("cp_async", "sync"):
            return "its copy asks for another instruction"
        if len(shape) != 2 or len(tensor.shape) > _MOST_DIMENSIONS:
            return f"a tile of {len(shape)} dimensions, from a tensor of {len(tensor.shape)}"
        if str(tensor.dtype) != str(p.buffer.dtype) or bits not in (4, 8, 16, 32):
            return f"it would have to be converted from {tensor.dtype} to {p.buffer.dtype}"
        if [n for n in extents if n != 1] != [n for n in shape if n != 1] or extents[-1] in (None, 1):
            return f"its rows do not lie along the last dimension of {tensor.name}"
        if shape[-1] * bits // 8 % _UNIT:
            return f"its rows of {shape[-1] * bits // 8} bytes are no multiple of {_UNIT}"
        if matrix_operand(shape, bits).kind != "swizzle" and shape[-1] > _MOST_BOX:
            return f"its rows have more than {_MOST_BOX} elements"
        strides = list(tensor.strides) or _row_strides(tensor.shape)
        numbers = [constant(s) for s in strides]
        if numbers[-1] != 1 or any(n is None or n * bits // 8 % _UNIT for n in numbers[:-1]):
            return f"the rows of {tensor.name} are not known to begin at multiples of {_UNIT} bytes"
        if safe_values(self._func).get(str(tensor.name), 0) != 0:
            return f"what lies outside of {tensor.name} is not 0"
        return None

    def _check_alone(self, loop: X.For, producers: list[Producer], bound: list[Any]) -> None:
        """The fetching thread must know all that its copies depend on."""
        written = {a.buffer.__chandle__() for a in all_accesses(self._body) if a.mode == "write"}
        given = [loop.min, loop.extent, *(b.value for b in bound)]
        given += [e for p in producers for r in p.copy.src.region for e in (r.min, r.extent)]
        read = [v for e in given for v in variables(X.Evaluate(e) if isinstance(e, ir.Expr) else e)]
        known = {b.var.__chandle__() for b in bound} | {loop.loop_var.__chandle__()}
        free = {v.__chandle__() for v in _defined(self._body)} - known
        for v in read:
            memory = X.is_buffer_var(v) and (v.scope() != "global" or v.__chandle__() in written)
            if memory or v.__chandle__() in free:
                raise _refuse(f"what its loop fetches depends on {v.name}, which the other threads compute")
        for p in producers:
            if p.copy.src.source.__chandle__() in written:
                raise _refuse(f"it writes {p.copy.src.source.name}, which its loop fetches")

    # What becomes of it

    def make(self, loop: X.For, producers: list[Producer], bound: list[Any], split: Split) -> Any:
        """The body of the new launch."""
        parts, stages, at = _flat(self._body), _stages(loop), loop.span
        versions = {p.buffer.__chandle__(): versioned(p.buffer, stages) for p in producers}
        loaded, freed = (
            X.decl_buffer((stages,), "uint64", name, scope="shared") for name in ("loaded", "freed")
        )
        held = [p for p in parts if isinstance(p, X.AllocBuffer) and p.buffer.__chandle__() not in versions]
        own = [p for p in parts if not isinstance(p, X.AllocBuffer)]
        ring = _Ring(loop, producers, versions, loaded, freed)
        consumed = [ring.computing() if p.same_as(loop) else p for p in own]
        first = X.const(self._threads, "int32")
        given = [_call("tl.setmaxnreg_dec", [index(split.fetching)], at)] if split.fetching else []
        taken = [_call("tl.setmaxnreg_inc", [index(split.computing)], at)] if split.fetching else []
        fetch = ring.fetching()
        return seq(
            [
                *held,
                *(X.AllocBuffer(b, span=at) for b in (*versions.values(), loaded, freed)),
                self._begin(loaded, freed, stages, at),
                X.IfThenElse(
                    X.GE(self._thread, first),
                    seq([*given, X.IfThenElse(X.EQ(self._thread, first), seq([*bound, fetch]), None, at)]),
                    seq([*taken, *consumed]),
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


@dataclass(frozen=True)
class _Ring:
    """A loop whose tiles go round between the warp that fetches and those that compute.

    loaded, freed: a barrier for each version of the tiles, `versions` by handle: it is there, it may be
    fetched anew.
    """

    loop: X.For
    producers: list[Producer]
    versions: dict[int, ir.Var]
    loaded: ir.Var
    freed: ir.Var

    def fetching(self) -> Any:
        """What the one thread does that fetches."""
        loop, stages, at = self.loop, _stages(self.loop), self.loop.span
        k = X.Var(str(loop.loop_var.name), loop.loop_var.ty)
        number = _from_zero(k, loop)
        version = X.FloorMod(number, index(stages))
        phase = X.FloorMod(X.FloorDiv(number, index(stages)), index(2))
        free = X.Cast("uint32", X.bitwise_xor(phase, index(1)))
        body = [_call("tl.mbarrier_wait", [_place(self.freed, version), free], at)]
        for p in self.producers:
            tile = self.versions[p.buffer.__chandle__()]
            mins, extents = [version, *(r.min for r in p.copy.dst.region)], [index(1)]
            extents += [r.extent for r in p.copy.dst.region]
            src, dst = substitute(p.copy.src, {loop.loop_var: k}), tile_ops.region(tile, mins, extents)
            loaded, policy = _place(self.loaded, version), p.copy.eviction_policy
            body.append(TmaCopy(src, dst, loaded, eviction_policy=policy, span=p.copy.span).call())
        body.append(_call("tl.mbarrier_arrive", [_place(self.loaded, version)], at))
        notes = {LOOP_KIND: "serial"}
        return X.For(k, loop.min, loop.extent, X.ForKind.SERIAL, seq(body), annotations=notes, span=at)

    def computing(self) -> Any:
        """What all others do, each version in its turn."""
        loop, stages, at = self.loop, _stages(self.loop), self.loop.span
        taken = {p.stmt.__chandle__() for p in self.producers}
        number = _from_zero(loop.loop_var, loop)
        version = X.FloorMod(number, index(stages))
        rest = [s for s in _flat(loop.body) if s.__chandle__() not in taken]
        phase = X.Cast("uint32", X.FloorMod(X.FloorDiv(number, index(stages)), index(2)))
        wait = _call("tl.mbarrier_wait", [_place(self.loaded, version), phase], at)
        notes = {LOOP_KIND: "serial"}
        gemm, clear = _only_gemm(rest, loop)
        if gemm is None:
            body = [wait, *(read_version(s, self.versions, version) for s in rest)]
            body.append(_call("tl.mbarrier_arrive_warp", [_place(self.freed, version)], at))
            return X.For(
                loop.loop_var, loop.min, loop.extent, X.ForKind.SERIAL, seq(body), annotations=notes, span=at
            )
        going_on = replace(gemm, asynchronous=True, clear_accum=False).call()
        before = X.FloorMod(number + (stages - 1), index(stages))
        free = X.IfThenElse(
            X.GT(number, index(0)),
            _call("tl.mbarrier_arrive_warp", [_place(self.freed, before)], at),
            None,
            at,
        )
        product = read_version(going_on, self.versions, version)
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


def _allocated(body: Any) -> list[ir.Var]:
    return [s.buffer for s in walk(body) if isinstance(s, X.AllocBuffer)]


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
