"""T.reduce_* on the threads of a block: partial results in registers, lanes by shuffles, warps through shared
memory.

The source's layout says which threads share a row: their digits of the reduced dimension. Digits inside a
warp are folded by a butterfly of shuffles, after which all of them hold the result; the others meet in a
small shared workspace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir import tile_ops
from tilelang.ir.folds import identity
from tilelang.ir.tile_ops import seq
from tilelang.layout.fragment import Digit, Fragment
from tilelang.ops.reduce import Reduce
from tilelang.passes.guard_bounds import conjunction
from tilelang.passes.layout_sites import reduced_dims
from tilelang.passes.walk import FRAGMENT, constant, index
from tilelang.targets.simt.block import Block, local, unrolled
from tilelang.targets.simt.ops.copy import loop_names
from tilelang.targets.simt.ops.iterations import first_replica

SHUFFLE_XOR = "tl.shuffle_xor"  # (value, lane mask): the value of the lane whose number differs in the mask

Combine = Callable[[Any, Any], Any]
_WRITTEN_OUT = 64  # iterations of a loop over a private array that are unrolled


@dataclass(frozen=True)
class _Kind:
    combine: Combine
    absolute: bool = False


KINDS: dict[str, _Kind] = {
    "sum": _Kind(lambda a, b: a + b),
    "max": _Kind(X.Max),
    "min": _Kind(X.Min),
    "abssum": _Kind(lambda a, b: a + b, absolute=True),
    "absmax": _Kind(X.Max, absolute=True),
    # Of truth values too: `&&` would skip its second operand, a shuffle that all lanes have to take part in.
    "bitand": _Kind(X.bitwise_and),
    "bitor": _Kind(X.bitwise_or),
    "bitxor": _Kind(X.bitwise_xor),
}


def nan_wins(combine: Combine) -> Combine:
    """`combine` of floats, but a NaN among the two is the result."""

    def both(a: Any, b: Any) -> Any:
        return X.if_then_else(X.isnan(a), a, X.if_then_else(X.isnan(b), b, combine(a, b)))

    return both


def is_private(reduce: Reduce) -> bool:
    """Whether the tile is an array that each thread has for itself."""
    return str(reduce.src.source.scope()) == "local"


def private_reduce(reduce: Reduce) -> Any:
    """The loops in which every thread folds an array of its own."""
    kind = KINDS[reduce.kind]
    combine = nan_wins(kind.combine) if reduce.nan_propagate else kind.combine
    src, dst, span = reduce.src, reduce.dst, reduce.span
    out_dtype = str(dst.source.dtype)
    dtype = _accumulator(out_dtype)
    total = local(f"{dst.source.name}_part", dtype, 1)
    dims = [d for d in range(len(src.region)) if d != reduce.dim]
    kept = [X.Var(name, "int32") for name in loop_names(len(dims))]
    folded = X.Var("r", "int32")
    steps = dict(zip(dims, kept, strict=True)) | {reduce.dim: folded}
    value: Any = X.BufferLoad(src.source, [r.min + steps[d] for d, r in enumerate(src.region)])
    value = value if str(src.source.dtype) == dtype else X.Cast(dtype, value)
    value = X.abs(value) if kind.absolute else value
    held = X.BufferLoad(total, [index(0)])
    places = [
        r.min if d is None else r.min + steps[d]
        for d, r in zip(reduced_dims(reduce), dst.region, strict=True)
    ]
    old: Any = X.BufferLoad(dst.source, places)
    first = identity(reduce.kind, dtype)
    if not reduce.clear:
        first = old if out_dtype == dtype else X.Cast(dtype, old)
    step = X.BufferStore(total, combine(held, value), [index(0)], span)
    body = seq(
        [
            X.AllocBuffer(total, span=span),
            X.BufferStore(total, first, [index(0)], span),
            _serial(folded, src.region[reduce.dim].extent, step, span),
            X.BufferStore(dst.source, held if out_dtype == dtype else X.Cast(out_dtype, held), places, span),
        ]
    )
    for dim, var in reversed(list(zip(dims, kept, strict=True))):
        body = _serial(var, src.region[dim].extent, body, span)
    return body


def _serial(var: ir.Var, extent: Any, body: Any, span: Any) -> Any:
    few = (constant(extent) or _WRITTEN_OUT + 1) <= _WRITTEN_OUT
    kind = X.ForKind.UNROLLED if few else X.ForKind.SERIAL
    return X.For(var, index(0), extent, kind, body, span=span)


def lower_reduce(stmt: Any, block: Block) -> Any:
    """The statements for the `tl.reduce` call in `stmt`."""
    reduce = Reduce.read(stmt.value)
    block.note_instruction(reduce.span, "registers, warp shuffles")
    return _Lowering(stmt, reduce, block).run()


class _Lowering:
    def __init__(self, stmt: Any, reduce: Reduce, block: Block) -> None:
        self.reduce, self.block, self.span = reduce, block, reduce.span
        self.source: Fragment = block.layouts.loops[stmt.__chandle__()]
        split = self.source.by_dimension()
        assert split is not None, "layout inference accepts no other layout for a reduction"
        self.kind = KINDS[reduce.kind]
        if reduce.nan_propagate:
            self.kind = replace(self.kind, combine=nan_wins(self.kind.combine))
        self.dst, self.src = reduce.dst.source, reduce.src.source
        self.dtype = _accumulator(str(self.dst.dtype))
        self.kept = sorted(_registers(split, lambda dim: dim != reduce.dim))
        self.folded = sorted(_registers(split, lambda dim: dim == reduce.dim))
        self.lanes = [d for dim, _, d, _ in split if dim == reduce.dim and d.place == "thread"]
        self.rows = [d for dim, _, d, _ in split if dim != reduce.dim and d.place == "thread"]
        self.count = math.prod(extent for _, extent in self.kept)
        self.name = str(self.dst.name)

    def run(self) -> Any:
        part = local(f"{self.name}_part", self.dtype, self.count)
        return seq(
            [
                X.AllocBuffer(part, span=self.span),
                self._fold_registers(part),
                *self._fold_lanes(part),
                *self._fold_warps(part),
                self._store(part),
            ]
        )

    def _each(self, name: str, extent: int, body: Callable[[Any], Any]) -> Any:
        """`body` for every value below `extent`, unrolled."""
        if extent == 1:
            return body(index(0))
        var = X.Var(name, "int32")
        self.block.bind(var, extent)
        return unrolled(var, extent, body(var), self.span)

    def _set(self, array: ir.Var, at: Any, value: Any) -> Any:
        return X.BufferStore(array, value, [at], self.span)

    # Registers of one thread

    def _fold_registers(self, part: ir.Var) -> Any:
        def row(o: Any) -> Any:
            first = self._set(part, o, identity(self.reduce.kind, self.dtype))
            steps = math.prod(extent for _, extent in self.folded)
            return seq([first, self._each("q", steps, lambda q: self._fold_one(part, o, q))])

        return self._each("o", self.count, row)

    def _fold_one(self, part: ir.Var, o: Any, q: Any) -> Any:
        position = self.block.simplify(_spread(o, self.kept) + _spread(q, self.folded))
        indices = [self.block.simplify(i) for i in self.source.indices(self.block.thread, position)]
        value = self._element(indices, position)
        if str(self.src.dtype) != self.dtype:
            value = X.Cast(self.dtype, value)
        if self.kind.absolute:
            value = X.abs(value)
        update = self._set(part, o, self.kind.combine(X.BufferLoad(part, [o]), value))
        # What lies beyond a whole fragment has registers of its own, whose rows are not stored.
        padded = self.src.scope() == FRAGMENT and self._whole()
        dims = (self.reduce.dim,) if padded else range(len(indices))
        return _when(self._inside(indices, dims), update, self.span)

    def _element(self, indices: list[Any], position: Any) -> Any:
        if self.src.scope() == FRAGMENT:
            held = self.block.fragment(self.src)
            same = self._whole() and held.digits == self.source.digits
            register = position if same else self.block.simplify(held.register(self._shifted(indices)))
            return X.BufferLoad(self.block.registers(self.src), [register])
        return X.BufferLoad(self.src, self._shifted(indices))

    def _whole(self) -> bool:
        """Whether all of the source is reduced, not a part of it."""
        sizes = zip(self.reduce.src.region, self.src.shape, strict=True)
        return all(constant(r.min) == 0 and constant(r.extent) == constant(n) for r, n in sizes)

    def _shifted(self, indices: list[Any]) -> list[Any]:
        return [self.block.simplify(r.min + i) for r, i in zip(self.reduce.src.region, indices, strict=True)]

    def _inside(self, indices: list[Any], dims: Any) -> Any | None:
        conditions = [
            indices[d] < self.source.shape[d]
            for d in dims
            if not self.block.analyzer.can_prove(indices[d] < self.source.shape[d])
        ]
        return conjunction(conditions) if conditions else None

    # Lanes of one warp

    def _shuffled(self) -> list[Digit]:
        """Digits that a butterfly folds: powers of two that lie in one warp."""
        found = []
        for d in self.lanes:
            room = max(1, self.block.target.warp_size // d.place_stride)
            inside = math.gcd(d.extent, room) if _power(d.place_stride) and _power(d.extent) else 1
            if inside > 1:
                found.append(Digit(d.stride, inside, "thread", d.place_stride))
        return found

    def _gathered(self) -> list[Digit]:
        """Digits, or what a butterfly leaves of them, that meet in shared memory."""
        shuffled = {d.place_stride: d.extent for d in self._shuffled()}
        found = []
        for d in self.lanes:
            done = shuffled.get(d.place_stride, 1)
            if d.extent > done:
                found.append(Digit(d.stride * done, d.extent // done, "thread", d.place_stride * done))
        return found

    def _fold_lanes(self, part: ir.Var) -> list[Any]:
        masks = [d.place_stride << k for d in self._shuffled() for k in range(d.extent.bit_length() - 1)]
        if not masks:
            return []

        def row(o: Any) -> Any:
            value = X.BufferLoad(part, [o])
            steps = []
            for mask in masks:
                other = tile_ops.call(SHUFFLE_XOR, [value, index(mask)], dtype=self.dtype, span=self.span)
                if self.reduce.nan_propagate:  # it is looked at more than once
                    named = X.Var("other", self.dtype)
                    steps.append(X.Bind(named, other, self.span))
                    other = named
                steps.append(self._set(part, o, self.kind.combine(value, other)))
            return seq(steps)

        return [self._each("o", self.count, row)]

    # Warps of the block

    def _fold_warps(self, part: ir.Var) -> list[Any]:
        gathered = self._gathered()
        if not gathered:
            return []
        entries, rows = math.prod(d.extent for d in gathered), math.prod(d.extent for d in self.rows)
        space = self.block.workspace(f"{self.name}_warps", self.dtype, self.count * entries * rows)
        mine, row = self._number(gathered), self._number(self.rows)

        def place(o: Any, entry: Any) -> Any:
            return self.block.simplify((o * entries + entry) * rows + row)

        def put(o: Any) -> Any:
            return X.BufferStore(space, X.BufferLoad(part, [o]), [place(o, mine)], self.span)

        def take(o: Any) -> Any:
            def one(c: Any) -> Any:
                value = self.kind.combine(X.BufferLoad(part, [o]), X.BufferLoad(space, [place(o, c)]))
                return self._set(part, o, value)

            first = self._set(part, o, identity(self.reduce.kind, self.dtype))
            return seq([first, self._each("w", entries, one)])

        conditions = [X.EQ(self._digit(d), index(0)) for d in self._shuffled()]
        replica = first_replica(self.source, self.block)
        conditions += [replica] if replica is not None else []
        writer = self.block.simplify(conjunction(conditions)) if conditions else None
        return [
            _when(writer, self._each("o", self.count, put), self.span),
            self._each("o", self.count, take),
        ]

    def _digit(self, d: Digit) -> Any:
        value = self.block.thread if d.place_stride == 1 else self.block.thread // d.place_stride
        return value if d.place_stride * d.extent == self.block.threads else value % d.extent

    def _number(self, digits: list[Digit]) -> Any:
        """The digits of the thread as one number."""
        total: Any = index(0)
        scale = 1
        for d in digits:
            total = total + self._digit(d) * scale
            scale *= d.extent
        return self.block.simplify(total)

    # The destination

    def _store(self, part: ir.Var) -> Any:
        dims = reduced_dims(self.reduce)
        shape = tuple(int(r.extent) for r in self.reduce.dst.region)
        owned = self.source.select(dims, shape)
        assert owned is not None, "a reduction's result has a layout wherever its source has one"
        if self.dst.scope() != FRAGMENT:
            return self._each("o", self.count, lambda o: self._store_owned(part, o, owned, self.dst, True))
        held = self.block.fragment(self.dst)
        whole = all(constant(r.min) == 0 for r in self.reduce.dst.region)
        if whole and held.equal(owned):
            array = self.block.registers(self.dst)
            return self._each("o", self.count, lambda o: self._combine(part, o, array, [o]))
        return self._exchange(part, owned, held, shape)

    def _combine(self, part: ir.Var, o: Any, array: ir.Var, at: list[Any]) -> Any:
        value = X.BufferLoad(part, [o])
        if not self.reduce.clear:
            old = X.BufferLoad(array, at)
            old = old if str(array.dtype) == self.dtype else X.Cast(self.dtype, old)
            value = self.kind.combine(old, value)
        if str(array.dtype) != self.dtype:
            value = X.Cast(str(array.dtype), value)
        return X.BufferStore(array, value, at, self.span)

    def _store_owned(self, part: ir.Var, o: Any, owned: Fragment, buffer: ir.Var, combine: bool) -> Any:
        """The first owner of an element writes it to memory."""
        found = [self.block.simplify(i) for i in owned.indices(self.block.thread, o)]
        conditions = [
            i < n for i, n in zip(found, owned.shape, strict=True) if not self.block.analyzer.can_prove(i < n)
        ]
        replica = first_replica(owned, self.block)
        conditions += [replica] if replica is not None else []
        if combine:
            at = [self.block.simplify(r.min + i) for r, i in zip(self.reduce.dst.region, found, strict=True)]
            store = self._combine(part, o, buffer, at)
        else:
            flat: Any = index(0)
            for i, n in zip(found, owned.shape, strict=True):
                flat = flat * n + i
            store = X.BufferStore(buffer, X.BufferLoad(part, [o]), [self.block.simplify(flat)], self.span)
        return _when(conjunction(conditions) if conditions else None, store, self.span)

    def _exchange(self, part: ir.Var, owned: Fragment, held: Fragment, shape: tuple[int, ...]) -> Any:
        """The destination wants its elements in other threads than the reduction leaves them: through shared
        memory.
        """
        space = self.block.workspace(f"{self.name}_shared", self.dtype, math.prod(shape))
        put = self._each("o", self.count, lambda o: self._store_owned(part, o, owned, space, False))
        array = self.block.registers(self.dst)
        one = local(f"{self.name}_new", self.dtype, 1)

        def take(p: Any) -> Any:
            found = [self.block.simplify(i) for i in held.indices(self.block.thread, p)]
            inside, flat = [], index(0)
            for i, r, n in zip(found, self.reduce.dst.region, shape, strict=True):
                at = self.block.simplify(i - r.min)
                inside += [c for c in (at >= 0, at < n) if not self.block.analyzer.can_prove(c)]
                flat = flat * n + at
            load = X.BufferStore(one, X.BufferLoad(space, [self.block.simplify(flat)]), [index(0)], self.span)
            body = seq([X.AllocBuffer(one, span=self.span), load, self._combine(one, index(0), array, [p])])
            return _when(conjunction(inside) if inside else None, body, self.span)

        return seq([put, self._each("p", held.registers, take)])


def _registers(split: Any, chosen: Callable[[int], bool]) -> list[tuple[int, int]]:
    return [(d.place_stride, d.extent) for dim, _, d, _ in split if chosen(dim) and d.place == "register"]


def _spread(value: Any, digits: list[tuple[int, int]]) -> Any:
    """A number over `digits` (stride, extent), lowest first, as a register of the source."""
    total: Any = index(0)
    below, count = 1, math.prod(extent for _, extent in digits)
    for stride, extent in digits:
        part = value if below == 1 else value // below
        part = part if below * extent == count else part % extent
        total = total + part * stride
        below *= extent
    return total


def _accumulator(dtype: str) -> str:
    """Short types are folded in 32 bits."""
    if dtype in ("float16", "bfloat16") or dtype.startswith("float8"):
        return "float32"
    return "int32" if dtype in ("int8", "int16") else dtype


def _when(condition: Any | None, stmt: Any, span: Any) -> Any:
    return stmt if condition is None else X.IfThenElse(condition, stmt, None, span)


def _power(n: int) -> bool:
    return n & (n - 1) == 0
