"""Warp specialisation for Hopper: one warp group more fetches tiles by TMA while the others compute.

In:  a tile function with one pipelined loop in a launch of 128 or 256 threads; it may stand in serial loops
     and branches.
Out: the same with 128 threads more, whose first one issues the loop's copies into S versions of their tiles
     as these become free; the author's threads run everything else as a team (`ir.teams`), wait for each
     version and free it when it is read. A T.gemm that is the only other statement of the loop goes on while
     the next one begins. Two mbarriers for each version, `loaded` and `freed`, order the two.
Not: kernels with thread code, barriers or addresses of their own, and copies that `plan_pipelines` would not
     run early or that TMA cannot do: a `Refusal` that says why is returned for those.

Whether it is worth it where nobody asks for it (`worth`): the threads that compute must be free to do so
while tiles arrive, which products by wgmma are and those by mma.sync are not; the loop must come back to a
version, else all copies are on their way anyhow; an iteration must be long beside two waits on barriers,
which 64×128×64 products are (a split product of a quarter of that took 0.11 ms instead of 0.07 on an H200);
and a multiprocessor must hold more than half the blocks that it would of the plain kernel, whose other blocks
compute too while tiles arrive. `SPLITS` gives it as many as shared memory and fragments have room for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.safe_values import safe_values
from tilelang.ir.tile_ops import seq
from tilelang.layout.shared import matrix_operand
from tilelang.ops.gemm import Gemm
from tilelang.passes.accesses import all_accesses
from tilelang.passes.plan_pipelines import Producer, covered_producers, versioned
from tilelang.passes.tile_ring import TileRing, barrier_call, flat, place, stages_of
from tilelang.passes.walk import (
    bits_of,
    calls,
    constant,
    index,
    loop_kind,
    remake,
    shape_of,
    uses,
    variables,
    walk,
)

GROUP, _WARP = 128, 32  # threads of a warp group, of a warp
_TILE_OPS = frozenset(
    {
        *(tile_ops.COPY, tile_ops.GEMM, tile_ops.FILL, tile_ops.REDUCE, tile_ops.SCAN, tile_ops.ASSUME),
        *(tile_ops.ATOMIC, tile_ops.ATOMIC_TILE),
    }
)
_IN_TURN = ("serial", "unroll", "Pipelined")  # loops whose iterations come one after the other
_MOST_DIMENSIONS, _MOST_BOX, _UNIT = 5, 256, 16  # of a tensor map, its box, its rows and strides (bytes)
_ROOM = 44  # registers for all but fragments: addresses, numbers of loops, parts of results on their way
_AT_ONCE = 28  # registers of a thread that the compiler needs beside the accumulators of one wgmma
_OWN = 1024  # bytes of shared memory that a block has for itself
_REGISTERS, _MOST_REGISTERS = 65536, 255  # of a multiprocessor, of a thread
_LEAST_PRODUCTS = 64 * 128 * 64  # of an iteration, for it to be long beside two waits


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
        found = work.find()
        split = work.split(found, shared_bytes, blocks)
        if not asked:
            worth(found, by_wgmma)
            work.check_crowd(found, shared_bytes, split)
    except _Refused as refused:
        return refused.args[0]
    body = work.make(found, split)

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


@dataclass(frozen=True)
class _Found:
    """The pipelined loop; the loops and branches around it, outermost first; its copies; and the scalars that
    all of these need, in order.
    """

    loop: X.For
    around: tuple[Any, ...]
    producers: tuple[Producer, ...]
    bound: tuple[Any, ...] = ()

    @property
    def again(self) -> bool:
        """Whether the loop is come to more than once."""
        return any(isinstance(s, X.For) for s in self.around)

    def given(self) -> list[Any]:
        """What the fetching thread must know, but for the scalars."""
        found = [e for s in (*self.around, self.loop) if isinstance(s, X.For) for e in (s.min, s.extent)]
        found += [s.condition for s in self.around if isinstance(s, X.IfThenElse)]
        return found + [e for p in self.producers for r in p.copy.src.region for e in (r.min, r.extent)]


def worth(found: _Found, by_wgmma: Callable[[Gemm], bool]) -> None:
    """Raises _Refused for a loop that is as fast without."""
    loop = found.loop
    gemms = [Gemm.read(c) for c in calls(loop.body) if tile_ops.is_call(c, tile_ops.GEMM)]
    if not all(map(by_wgmma, gemms)):
        raise _refuse("a T.gemm of its loop is not done by wgmma")
    if not gemms:
        raise _refuse("its loop has no T.gemm", obvious=True)
    count, stages = constant(loop.extent), stages_of(loop)
    if count is not None and count <= stages and not found.again:
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

    def find(self) -> _Found:
        """The loop with its copies. Raises _Refused."""
        loops = [s for s in walk(self._body) if loop_kind(s) == "Pipelined" and stages_of(s) >= 2]
        if len(loops) != 1:
            count = f"it has {len(loops) or 'no'} T.Pipelined loops of two stages or more"
            raise _refuse(count, obvious=not loops)
        loop = loops[0]
        around, bound = _way_to(loop, self._body)
        self._check_plain()
        found = covered_producers(self._func.body, loop)
        producers = [p for p in found if isinstance(p, Producer)]
        if not found:
            raise _refuse("none of its loop's copies may run early")
        for p in found:
            if not isinstance(p, Producer):
                raise _refuse(f"a loop of all threads gathers {p.buffer.name}", obvious=True)
        for p in producers:
            if (why := self._no_tma(p)) is not None:
                raise _refuse(f"TMA cannot fill {p.buffer.name}: {why}")
        whole = _Found(loop, tuple(around), tuple(producers), ())
        whole = replace(whole, bound=tuple(_needed(bound, whole.given())))
        self._check_alone(whole)
        return whole

    def split(self, found: _Found, shared_bytes: int, blocks: int | None) -> Split:
        """How registers are shared out. Raises _Refused where the fragments have no room."""
        held = _ROOM + sum(self._registers(b) for b in _allocated(self._body))
        shared = self._shared(found)
        # The compiler refuses an instruction whose registers are more than the launch gives a thread.
        gemms = [Gemm.read(c) for c in calls(self._body) if tile_ops.is_call(c, tile_ops.GEMM)]
        once = max([min(self._registers(g.c.source), g.shape[1] // 2, 128) for g in gemms], default=0)
        roomy = [s for s in SPLITS[self._threads] if s.computing >= held and s.launched >= once + _AT_ONCE]
        if blocks is not None:
            roomy = [s for s in roomy if s.blocks == blocks]
        if not roomy:
            raise _refuse(f"a thread needs about {held} registers, more than it would get")
        return next((s for s in roomy if s.blocks * (shared + _OWN) <= shared_bytes), roomy[-1])

    def check_crowd(self, found: _Found, shared_bytes: int, split: Split) -> None:
        """Raises _Refused where the plain kernel would have twice the blocks on a multiprocessor: as many as
        shared memory and the registers of its largest fragment leave room for (fragments that are not needed
        at once share registers). Two of three are no loss (an fp8 product with scales per block gains 17 %),
        one of two is (fp8, int8 and attention on 256 threads lose 7 to 22 %; H200, 1 December 2026).
        """
        largest = max(map(self._registers, _allocated(self._body)), default=0)
        plain = min(
            shared_bytes // (self._shared(found) + _OWN),
            _REGISTERS // (self._threads * min(_ROOM + largest, _MOST_REGISTERS)),
        )
        if plain >= 2 * split.blocks:
            raise _refuse(f"a multiprocessor would hold {split.blocks} of its blocks instead of {plain}")

    def _shared(self, found: _Found) -> int:
        """Bytes of shared memory, every version counted. Raises _Refused where they are not known."""
        of_tiles = {p.buffer.__chandle__(): stages_of(found.loop) for p in found.producers}
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
        if any(isinstance(s, X.Break | X.Continue) for s in walk(self._body)):
            raise _refuse("it leaves loops or iterations early, which the fetching thread does not know of")
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

    def _check_alone(self, found: _Found) -> None:
        """The fetching thread must know all that its copies depend on."""
        written = {a.buffer.__chandle__() for a in all_accesses(self._body) if a.mode == "write"}
        given = [*found.given(), *(b.value for b in found.bound)]
        known = {b.var.__chandle__() for b in found.bound}
        known |= {s.loop_var.__chandle__() for s in (*found.around, found.loop) if isinstance(s, X.For)}
        free = {v.__chandle__() for v in _defined(self._body)} - known
        for v in _read(given):
            memory = X.is_buffer_var(v) and (v.scope() != "global" or v.__chandle__() in written)
            if memory or v.__chandle__() in free:
                raise _refuse(f"what its loop fetches depends on {v.name}, which the other threads compute")
        inside = [a.buffer.__chandle__() for a in all_accesses(found.loop.body)]
        anywhere = [a.buffer.__chandle__() for a in all_accesses(self._body)]
        for p in found.producers:
            if p.copy.src.source.__chandle__() in written:
                raise _refuse(f"it writes {p.copy.src.source.name}, which its loop fetches")
            tile = p.buffer.__chandle__()
            if anywhere.count(tile) > inside.count(tile):
                raise _refuse(f"{p.buffer.name} is used outside of its loop too")

    # What becomes of it

    def make(self, found: _Found, split: Split) -> Any:
        """The body of the new launch."""
        loop, at, stages = found.loop, found.loop.span, stages_of(found.loop)
        versions = {p.buffer.__chandle__(): versioned(p.buffer, stages) for p in found.producers}
        loaded, freed = (
            X.decl_buffer((stages,), "uint64", name, scope="shared") for name in ("loaded", "freed")
        )
        done = X.decl_buffer((1,), "int32", "done", scope="local")
        ring = TileRing(loop, found.again, found.producers, versions, loaded, freed, done)
        parts = [p for p in flat(self._body) if not _allocates(p, versions)]
        held = [p for p in parts if isinstance(p, X.AllocBuffer)]
        consumed = _with(
            seq([p for p in parts if not isinstance(p, X.AllocBuffer)]), loop, ring.computing(), versions
        )
        fetched = _only_way(self._body, found, ring.fetching())
        first = X.const(self._threads, "int32")
        given = [barrier_call("tl.setmaxnreg_dec", [index(split.fetching)], at)] if split.fetching else []
        taken = [barrier_call("tl.setmaxnreg_inc", [index(split.computing)], at)] if split.fetching else []
        counter = [X.AllocBuffer(done, span=at), X.BufferStore(done, index(0), [index(0)], at)]
        return seq(
            [
                *held,
                *(X.AllocBuffer(b, span=at) for b in (*versions.values(), loaded, freed)),
                *(counter if found.again else []),
                self._begin(loaded, freed, stages, at),
                X.IfThenElse(
                    X.GE(self._thread, first),
                    seq([*given, X.IfThenElse(X.EQ(self._thread, first), fetched, None, at)]),
                    seq([*taken, consumed]),
                    at,
                ),
            ]
        )

    def _begin(self, loaded: ir.Var, freed: ir.Var, stages: int, at: Any) -> Any:
        made = [
            barrier_call("tl.mbarrier_init", [place(barrier, index(k)), index(count)], at)
            for barrier, count in ((loaded, 1), (freed, self._threads // _WARP))
            for k in range(stages)
        ]
        here = X.IfThenElse(X.EQ(self._thread, index(0)), seq(made), None, at)
        return seq([here, barrier_call("tl.fence_barrier_init", [], at), barrier_call(tile_ops.SYNC, [], at)])


def _way_to(loop: X.For, body: Any) -> tuple[list[Any], list[Any]]:
    """The loops and branches around a loop, outermost first, and the scalars in scope. Raises _Refused."""
    around: list[Any] = []
    bound: list[Any] = []
    here = body
    while True:
        parts = flat(here)
        at = next(k for k, p in enumerate(parts) if _holds(p, loop))
        bound += [p for p in parts[:at] if isinstance(p, X.Bind)]
        way = parts[at]
        if way.same_as(loop):
            return around, bound
        if isinstance(way, X.For) and loop_kind(way) in _IN_TURN:
            here = way.body
        elif isinstance(way, X.IfThenElse):
            here = way.then_case if _holds(way.then_case, loop) else way.else_case
        else:
            raise _refuse("its T.Pipelined loop stands inside another statement")
        around.append(way)


def _only_way(body: Any, found: _Found, fetch: Any) -> Any:
    """`body` with nothing in it but what leads to the loop, and `fetch` in the loop's place."""
    kept = {s.__chandle__() for s in (*found.around, *found.bound)}
    made = []
    for part in flat(body):
        if part.same_as(found.loop):
            made.append(fetch)
        elif part.__chandle__() not in kept:
            continue
        elif isinstance(part, X.For):
            inner, notes = _only_way(part.body, found, fetch), {LOOP_KIND: "serial"}
            bounds = (part.loop_var, part.min, part.extent, X.ForKind.SERIAL)
            made.append(X.For(*bounds, inner, annotations=notes, step=part.step, span=part.span))
        elif isinstance(part, X.IfThenElse):
            branches = (part.then_case, part.else_case)
            then, orelse = (
                _only_way(b, found, fetch) if b is not None and _holds(b, found.loop) else None
                for b in branches
            )
            made.append(X.IfThenElse(part.condition, then or seq([]), orelse, part.span))
        else:
            made.append(part)
    return seq(made)


def _with(body: Any, loop: X.For, computing: Any, gone: Mapping[int, Any]) -> Any:
    """`body` with `computing` in the loop's place and without what allocates the tiles of `gone`."""

    def swapped(stmt: Any) -> Any:
        if stmt.same_as(loop):
            return computing
        return seq([]) if _allocates(stmt, gone) else remake(stmt, swapped)

    return swapped(body)


def _allocates(stmt: Any, buffers: Mapping[int, Any]) -> bool:
    return isinstance(stmt, X.AllocBuffer) and stmt.buffer.__chandle__() in buffers


def _holds(stmt: Any, inner: Any) -> bool:
    return any(s.same_as(inner) for s in walk(stmt))


def _read(expressions: list[Any]) -> list[ir.Var]:
    return [v for e in expressions for v in variables(X.Evaluate(e) if isinstance(e, ir.Expr) else e)]


def _needed(bound: list[Any], given: list[Any]) -> list[Any]:
    """Those of the scalars that something given is computed from, in their order."""
    names = {v.__chandle__() for v in _read(given)}
    kept: list[Any] = []
    for one in reversed(bound):
        if one.var.__chandle__() in names:
            kept.insert(0, one)
            names |= {v.__chandle__() for v in _read([one.value])}
    return kept


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


def _row_strides(shape: Any) -> list[Any]:
    total: Any = 1
    found: list[Any] = []
    for n in reversed(list(shape)):
        found.insert(0, total)
        known, number = constant(total), constant(n)
        total = known * number if known is not None and number is not None else None
    return found
