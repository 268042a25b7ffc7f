"""T.cumsum and T.cummax on the threads of a block: registers of one lane, lanes by shuffles, piece by piece.

A line is one run along the scanned dimension. A group of lanes of one warp walks along it: each lane scans a
few neighbours in registers, a butterfly of shuffles tells it what lies before them, and the total is carried
to the next piece. No line is shared by two warps, so that no barrier stands inside. A tile that is not in
shared memory is scanned in a copy there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import tvm_ffi
from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.error import KernelError
from tilelang.diagnostics.rules.shape import SCAN_RUNTIME_EXTENT
from tilelang.ir import tile_ops
from tilelang.ir.folds import identity
from tilelang.ir.spans import place_of
from tilelang.ir.tile_ops import seq
from tilelang.ops.scan import Scan
from tilelang.passes.guard_bounds import conjunction
from tilelang.passes.parallel_loop import nested_parallel
from tilelang.passes.walk import bits_of, constant, index
from tilelang.targets.simt.block import Block, local, unrolled
from tilelang.targets.simt.ops.copy import OP, loop_names
from tilelang.targets.simt.ops.reduce import SHUFFLE_XOR
from tilelang.targets.simt.ops.vectorized import lower_vectorized

_WIDE = {"float16": "float32", "bfloat16": "float32"}
_UNIT = 16  # bytes that a thread moves at once
_WRITTEN_OUT = 4  # rounds that are unrolled


def scan_in_shared(op: Scan) -> Any:
    """The scan of a tile in shared memory, in place, between the copies to and from it that this takes."""
    extents = [constant(r.extent) for r in op.src.region]
    if None in extents:
        name = str(op.src.source.name)
        raise KernelError([SCAN_RUNTIME_EXTENT.at(place_of(op.span), buffer=name, op=f"T.cum{op.kind}")])
    shape = tuple(n for n in extents if n is not None)
    if _in_place(op):
        return op.call()
    if _straight(op):
        return seq([_copied(op, op.src, op.dst, shape), replace(op, src=op.dst).call()])
    dtype = str(op.src.source.dtype)
    space = X.decl_buffer(shape, _WIDE.get(dtype, dtype), f"{op.dst.source.name}_scan", scope="shared")
    whole = tile_ops.region(space, [index(0)] * len(shape), [index(n) for n in shape])
    return seq(
        [
            X.AllocBuffer(space, span=op.span),
            _copied(op, op.src, whole, shape),
            replace(op, src=whole, dst=whole).call(),
            _copied(op, whole, op.dst, shape),
        ]
    )


def _in_shared(region: Any) -> bool:
    return str(region.source.scope()).startswith("shared")


def _in_place(op: Scan) -> bool:
    same = op.src.source.same_as(op.dst.source) and all(
        tvm_ffi.structural_equal(a.min, b.min) for a, b in zip(op.src.region, op.dst.region, strict=True)
    )
    return same and _in_shared(op.dst)


def _straight(op: Scan) -> bool:
    """Whether the tile may be scanned where its result goes: no rounding between, and no memory of its own
    under another name.
    """
    return (
        _in_shared(op.dst) and not _in_shared(op.src) and str(op.src.source.dtype) == str(op.dst.source.dtype)
    )


def _copied(op: Scan, src: Any, dst: Any, shape: tuple[int, ...]) -> Any:
    loop_vars = [X.Var(n, "int32") for n in loop_names(len(shape))]

    def at(region: Any) -> list[Any]:
        pairs = zip(region.region, loop_vars, strict=True)
        return [v if constant(r.min) == 0 else r.min + v for r, v in pairs]

    value: Any = X.BufferLoad(src.source, at(src))
    dtype = str(dst.source.dtype)
    value = value if str(value.ty) == dtype else X.Cast(dtype, value)
    store = X.BufferStore(dst.source, value, at(dst), op.span)
    return nested_parallel(loop_vars, list(shape), store, {OP: f"cum{op.kind}"}, op.span)


def lower_scan(stmt: Any, block: Block) -> Any:
    """The statements for the `tl.scan` call in `stmt`, of a tile in shared memory, in place."""
    op = Scan.read(stmt.value)
    block.note_instruction(op.span, "registers, warp shuffles")
    return _Lowering(op, block).run()


class _Lowering:
    """`lanes` of a warp walk along a line, `side` lines beside each other; each lane takes `few` neighbours.

    Where lines lie along the last dimension, lanes side by side take neighbours of one line; where they lie
    across it, neighbouring lines: accesses of a warp are neighbours in memory in both cases.
    """

    def __init__(self, op: Scan, block: Block) -> None:
        self.op, self.block, self.span = op, block, op.span
        self.buffer, self.shape = op.dst.source, [int(r.extent) for r in op.dst.region]
        self.length, self.lines = self.shape[op.dim], math.prod(self.shape) // self.shape[op.dim]
        self.dtype = _WIDE.get(str(self.buffer.dtype), str(self.buffer.dtype))
        # Threads that a butterfly may take: all of them are there, and their lanes differ in whole bits.
        together = 1 if block.scattered else block.target.warp_size
        self.warp = math.gcd(together, block.threads, block.first)
        self.warps = block.threads // self.warp
        self.along = op.dim == len(self.shape) - 1
        self.few = _few(self.length, bits_of(str(self.buffer.dtype))) if self.along else 1
        wanted = -(-self.length // self.few) if self.along else self.warp * self.warps // self.lines
        self.lanes = min(self.warp, _power_above(wanted) if self.along else _power_below(max(1, wanted)))
        self.side = self.warp // self.lanes
        names = ("held", "carry", "total", "before")
        self.held, self.carry, self.total, self.before = (
            local(f"{self.buffer.name}_{name}", self.dtype, self.few if name == "held" else 1)
            for name in names
        )

    def run(self) -> Any:
        arrays = (self.held, self.carry, self.total, self.before)
        rounds = -(-self.lines // (self.warps * self.side))
        walk = self._each("t", rounds, self._line)
        return seq([*(X.AllocBuffer(a, span=self.span) for a in arrays), walk])

    def _line(self, t: Any) -> Any:
        """One line of each group of lanes."""
        lane, warp = self.block.thread % self.warp, self.block.thread // self.warp
        step, side = (
            (lane % self.lanes, lane // self.lanes) if self.along else (lane // self.side, lane % self.side)
        )
        line = self.block.simplify((t * self.warps + warp) * self.side + side)
        pieces = -(-self.length // (self.lanes * self.few))
        first = self._set(self.carry, 0, self._identity())
        return seq([first, self._each("c", pieces, lambda c: self._piece(line, c * self.lanes + step, step))])

    def _piece(self, line: Any, number: Any, step: Any) -> Any:
        """What a lane does with its neighbours: `number` of the line, `step` among the lanes."""
        number = self.block.simplify(number)
        conditions = [
            c
            for c in (line < self.lines, number * self.few < self.length)
            if not self.block.analyzer.can_prove(c)
        ]
        here = conjunction(conditions) if conditions else None
        load = self._moved(
            line, number, lambda at, v: X.BufferStore(self.held, self._read(at), [v], self.span)
        )
        if here is not None:
            blank = self._each("v", self.few, lambda v: self._set(self.held, v, self._identity()))
            load = seq([blank, X.IfThenElse(here, load, None, self.span)])
        store = self._moved(line, number, self._written)
        return seq(
            [
                load,
                *self._own(),
                self._set(self.total, 0, self._get(self.held, 0 if self.op.reverse else self.few - 1)),
                self._set(self.before, 0, self._get(self.carry, 0)),
                *self._over_lanes(step),
                store if here is None else X.IfThenElse(here, store, None, self.span),
                self._set(self.carry, 0, self._fold(self._get(self.carry, 0), self._get(self.total, 0))),
            ]
        )

    def _own(self) -> list[Any]:
        """The scan of a lane's own neighbours."""
        order = range(self.few - 2, -1, -1) if self.op.reverse else range(1, self.few)
        last = 1 if self.op.reverse else -1
        held = self.held
        return [self._set(held, k, self._fold(self._get(held, k + last), self._get(held, k))) for k in order]

    def _over_lanes(self, step: Any) -> list[Any]:
        """Afterwards every lane knows the total of all, and what lies before its own neighbours.

        A butterfly: lanes exchange the totals of ever larger halves; below the upper half is the lower.
        """
        done = []
        for bit in range(self.lanes.bit_length() - 1):
            mask = (1 << bit) * (1 if self.along else self.side)
            total = self._get(self.total, 0)
            other = X.Var("other", self.dtype)
            call = tile_ops.call(SHUFFLE_XOR, [total, index(mask)], dtype=self.dtype, span=self.span)
            upper = X.NE(X.bitwise_and(self.block.simplify(step), index(1 << bit)), index(0))
            below = self._set(self.before, 0, self._fold(other, self._get(self.before, 0)))
            done.append(
                seq(
                    [
                        X.Bind(other, call, self.span),
                        X.IfThenElse(upper, below, None, self.span),
                        self._set(self.total, 0, self._fold(total, other)),
                    ]
                )
            )
        return done

    # Elements

    def _moved(self, line: Any, number: Any, one: Callable[[list[Any], Any], Any]) -> Any:
        """`one` for every neighbour of a lane: (its indices, its register)."""
        v = X.Var("v", "int32")
        low = number * self.few
        if self.op.reverse:
            low = self.length - self.few - low
        if self.few == 1:
            return one(self._at(line, low), index(0))
        loop = X.For(
            v,
            index(0),
            index(self.few),
            X.ForKind.VECTORIZED,
            one(self._at(line, low + v), v),
            span=self.span,
        )
        self.block.bind(v, self.few)
        return lower_vectorized(loop, self.block) or unrolled(v, self.few, loop.body, self.span)

    def _at(self, line: Any, k: Any) -> list[Any]:
        """The indices of element `k` of a line."""
        found: list[Any] = [k] * len(self.shape)
        below = 1
        for d in reversed([d for d in range(len(self.shape)) if d != self.op.dim]):
            part = line if below == 1 else line // below
            below *= self.shape[d]
            found[d] = part if below == self.lines else part % self.shape[d]
        return [self.block.simplify(r.min + i) for r, i in zip(self.op.dst.region, found, strict=True)]

    def _read(self, at: list[Any]) -> Any:
        return _as(X.BufferLoad(self.buffer, at), self.dtype)

    def _written(self, at: list[Any], v: Any) -> Any:
        value = self._fold(self._get(self.before, 0), X.BufferLoad(self.held, [v]))
        return X.BufferStore(self.buffer, _as(value, str(self.buffer.dtype)), at, self.span)

    def _fold(self, before: Any, own: Any) -> Any:
        return X.Max(before, own) if self.op.kind == "max" else X.Add(before, own)

    def _identity(self) -> Any:
        """What changes nothing: of two floats the greater is the number where one is NaN."""
        if self.op.kind == "max" and "float" in self.dtype:
            return X.const(math.nan, self.dtype)
        return identity(self.op.kind, self.dtype)

    def _get(self, array: ir.Var, at: int) -> Any:
        return X.BufferLoad(array, [index(at)])

    def _set(self, array: ir.Var, at: Any, value: Any) -> Any:
        return X.BufferStore(array, value, [index(at) if isinstance(at, int) else at], self.span)

    def _each(self, name: str, extent: int, body: Callable[[Any], Any]) -> Any:
        if extent == 1:
            return body(index(0))
        var = X.Var(name, "int32")
        self.block.bind(var, extent)
        if extent <= _WRITTEN_OUT:
            return unrolled(var, extent, body(var), self.span)
        return X.For(var, index(0), index(extent), X.ForKind.SERIAL, body(var), span=self.span)


def _as(value: Any, dtype: str) -> Any:
    return value if str(value.ty) == dtype else X.Cast(dtype, value)


def _few(length: int, bits: int) -> int:
    """Neighbours that a lane moves at once."""
    return max(n for n in (1, 2, 4, 8, 16) if length % n == 0 and n * bits <= 8 * _UNIT)


def _power_below(n: int) -> int:
    return 1 << (n.bit_length() - 1)


def _power_above(n: int) -> int:
    return 1 << (n - 1).bit_length()
