"""Where the axes of tiles come from: which dimension of which tensor an axis ranges over, and from where on.

`T.copy(A[by * 64, k * 32], a)` makes the rows of `a` the rows of A from `by * 64` on. Copies, products,
reductions and loops element by element hand that on. An axis may have several origins (a sum of two tiles) or
none (constants); None in place of its origins means that it is not known.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tilelang.analysis.affine import Affine, affine
from tilelang.analysis.subject import Subject
from tilelang.diagnostics.span import Span
from tilelang.ir.expressions import loads_of
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.tile_program import Context, Do, For, If, Launch, Loop, Node, OpRecord, Store
from tilelang.ir.values import Buffer, Region, Unknown, Value, as_int, same_size
from tilelang.ops.tile_op import RegionAccess

from tvm import ir  # isort: skip


@dataclass(frozen=True, eq=False)
class Origin:
    """The dimension of a tensor along which an axis runs, and the coordinate of the axis's first element."""

    buffer: Buffer
    dim: int
    first: Value
    steps: Collection[ir.Var]  # variables of blocks and loops

    @cached_property
    def start(self) -> Affine | None:
        """In blocks and iterations; None where it depends on more, such as an element of memory."""
        form = None if isinstance(self.first, Unknown) else affine(self.first)
        return form if form is not None and all(v in self.steps for v in form.terms) else None

    @property
    def moves(self) -> bool:
        """Whether it starts elsewhere in another block or iteration."""
        return self.start is not None and bool(self.start.terms)

    def starts_with(self, other: Origin) -> bool | None:
        """Whether the two start at the same coordinate everywhere, None where that is not known."""
        a, b = self.start, other.start
        if a is None or b is None:
            return None
        return a.constant == b.constant and a.terms == b.terms


Axis = tuple[Origin, ...] | None


@dataclass(frozen=True, eq=False)
class Product:
    """The axes of the factors of one T.gemm, each time the analysis came by."""

    record: OpRecord
    factors: list[tuple[tuple[Axis, Axis], tuple[Axis, Axis]]]


@dataclass(frozen=True, eq=False)
class Written:
    """One axis of what is written to a tensor: where it goes, and where it comes from."""

    span: Span
    context: Context
    to: Origin
    axis: Axis


@dataclass(frozen=True, eq=False)
class TileAxes:
    """The products of a kernel and its writes to tensors, in program order."""

    products: tuple[Product, ...] = ()
    written: tuple[Written, ...] = ()


def tile_axes(subject: Subject) -> TileAxes:
    """Asked through `subject.shared(tile_axes)`; nothing is known of programs of several launches."""
    if subject.launch is None:
        return TileAxes()
    follower = _Follower(subject)
    follower.nodes(subject.launch.body)
    return TileAxes(tuple(follower.products.values()), tuple(follower.written.values()))


class _Follower:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._axes: dict[Buffer, tuple[Axis, ...]] = {}
        self._by_var = {b.var: b for b in subject.program.buffers if b.known}
        self._starts: dict[RegionAccess, tuple[Axis, ...]] = {}
        self._looping = False
        launch = subject.launch
        self._steps: set[ir.Var] = set(launch.block_vars if launch is not None else ())
        self.products: dict[OpRecord, Product] = {}
        self.written: dict[tuple[object, int], Written] = {}  # by statement and dimension

    def nodes(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            match node:
                case Do():
                    self._op(node.record)
                case Store():
                    self._store(node)
                case For():
                    self._loop(node)
                case If():
                    self._branches(node)
                case Launch():
                    self.nodes(node.body)
                case _:
                    pass

    def _loop(self, node: For) -> None:
        """Twice, so that what one iteration leaves behind is seen by the next; inner loops with the outer."""
        self._steps.update(node.loop.vars)
        outermost = not self._looping and node.loop.kind != "Parallel"
        self._looping = self._looping or outermost
        outside = set(self._steps)
        self.nodes(node.body)
        if outermost:
            self._next_iteration(node.loop, inner=self._steps - outside)
            self.nodes(node.body)
            self._looping = False

    def _next_iteration(self, loop: Loop, inner: Collection[ir.Var]) -> None:
        """What tiles hold was loaded one iteration ago, `t - 1` of `t`; what depends on an inner loop is of
        its last iterations, and nothing is said of it.
        """
        step = loop.step
        before = {} if isinstance(step, Unknown) else {v: v - step for v in loop.vars}
        open_vars = {*inner, *(() if before else loop.vars)}

        def aged(axis: Axis) -> Axis:
            if axis is None or any(not free_vars(o.first).isdisjoint(open_vars) for o in axis):
                return None
            return tuple(replace(o, first=substitute(o.first, before)) for o in axis)

        self._axes = {buffer: tuple(aged(a) for a in axes) for buffer, axes in self._axes.items()}

    def _branches(self, node: If) -> None:
        before = dict(self._axes)
        self.nodes(node.body)
        after, self._axes = self._axes, before
        self.nodes(node.orelse)
        for buffer in {*after, *self._axes}:
            one, other = after.get(buffer), self._axes.get(buffer)
            if one is not None and other is not None:
                self._axes[buffer] = _joined(one, other)
            elif one is not None:
                self._axes[buffer] = one

    def _op(self, record: OpRecord) -> None:
        accesses = {a.argument: a for a in self._subject.accesses(record)}
        match record.op:
            case "copy":
                self._copy(record, accesses.get("src"), accesses.get("dst"))
            case "gemm":
                self._gemm(record, accesses)
            case "reduce":
                self._reduce(record, accesses.get("buffer"), accesses.get("out"))
            case "fill":
                for access in accesses.values():
                    self._put(access, [()] * len(access.extents))
            case _:
                for access in accesses.values():
                    if access.mode != "read":
                        self._put(access, [None] * len(access.extents))

    def _copy(self, record: OpRecord, src: RegionAccess | None, dst: RegionAccess | None) -> None:
        if dst is None:
            return
        given = [None] * len(dst.extents) if src is None else _matched(src, self.of(src), dst)
        self._put(dst, given)
        if dst.region.buffer.scope == "global" and dst.region.fits_rank:
            for dim, axis in enumerate(given):
                self._note(record, record.span_of("dst"), record.context, dst.region.buffer, dim,
                           dst.region.starts[dim], axis)  # fmt: skip

    def _note(
        self, key: object, span: Span, context: Context, buffer: Buffer, dim: int, first: Value, axis: Axis
    ) -> None:
        if axis:
            self.written[key, dim] = Written(span, context, Origin(buffer, dim, first, self._steps), axis)

    def _gemm(self, record: OpRecord, accesses: dict[str, RegionAccess]) -> None:
        a, b, c = (accesses.get(n) for n in ("A", "B", "C"))
        if a is None or b is None or c is None or min(len(x.extents) for x in (a, b, c)) < 2:
            return
        factors = _last_two(self.of(a)), _last_two(self.of(b))
        self.products.setdefault(record, Product(record, [])).factors.append(factors)
        turned = [as_int(record.value(n, False)) for n in ("transpose_A", "transpose_B")]
        rows, columns = (
            None if t is None else side[free] if not t else side[1 - free]
            for side, t, free in zip(factors, turned, (0, 1), strict=True)
        )
        self._put(c, [*([()] * (len(c.extents) - 2)), rows, columns])

    def _reduce(self, record: OpRecord, src: RegionAccess | None, out: RegionAccess | None) -> None:
        if out is None:
            return
        dim = as_int(record.value("dim", -1))
        axes = None if src is None or dim is None else list(self.of(src))
        if axes is not None and dim is not None and -len(axes) <= dim < len(axes):
            if len(out.extents) == len(axes):
                axes[dim] = ()
            else:
                del axes[dim]
        self._put(
            out, axes if axes is not None and len(axes) == len(out.extents) else [None] * len(out.extents)
        )

    def _store(self, node: Store) -> None:
        """Element by element: the axis that a loop variable indexes comes from where it indexes others."""
        buffer = node.buffer
        if buffer.scope == "global":
            self._store_to_tensor(node)
            return
        if buffer.scope == "local.var" or buffer.view_of is not None or not buffer.known:
            self._forget(buffer)
            return
        loads = loads_of(node.value)
        axes = [self._along(i, loads) if isinstance(i, ir.Var) else () for i in node.indices]
        whole = all(isinstance(i, ir.Var) for i in node.indices) and len(set(node.indices)) == len(axes)
        before = self._axes.get(buffer)
        self._axes[buffer] = tuple(axes) if whole or before is None else _joined(before, tuple(axes))

    def _store_to_tensor(self, node: Store) -> None:
        loads = loads_of(node.value)
        inside = {v for loop in node.context.loops if loop.kind == "Parallel" for v in loop.vars}
        for dim, index in enumerate(node.indices):
            moving = [v for v in free_vars(index) if v in inside]
            if len(moving) == 1 and loads:
                first = substitute(index, {moving[0]: 0})
                self._note(
                    node, node.span, node.context, node.buffer, dim, first, self._along(moving[0], loads)
                )

    def _along(self, var: ir.Var, loads: Sequence[Any]) -> Axis:
        found: list[Origin] = []
        for load in loads:
            buffer = self._by_var.get(load.source)
            for dim, index in enumerate(load.indices):
                if var not in free_vars(index):
                    continue
                if buffer is None or len(load.indices) != len(buffer.shape):
                    return None
                axis = self._indexed(buffer, dim, index, var)
                if axis is None:
                    return None
                found += axis
        return _distinct(found)

    def _indexed(self, buffer: Buffer, dim: int, index: Value, var: ir.Var) -> Axis:
        if buffer.scope != "global":
            known = self._axes.get(buffer)
            return known[dim] if known is not None and isinstance(index, ir.Var) else None
        form = affine(index)
        if form is None or form.coefficient(var) != 1:
            return None
        return (Origin(buffer, dim, substitute(index, {var: 0}), self._steps),)

    def of(self, access: RegionAccess) -> tuple[Axis, ...]:
        """The axes of what an operation touches, one for each dimension of its buffer."""
        region = access.region
        if region.buffer.scope == "global":
            known = self._starts.get(access)
            if known is None:
                known = self._starts[access] = self._of_tensor(region)
            return known
        known = self._axes.get(region.buffer)
        if known is None or not region.fits_rank:
            return (None,) * len(access.extents)
        if region.whole:
            return known
        here = zip(known, region.starts, access.extents, region.buffer.shape, strict=True)
        return tuple(axis if _all(start, extent, size) else () if as_int(extent) == 1 else None
                     for axis, start, extent, size in here)  # fmt: skip

    def _of_tensor(self, region: Region) -> tuple[Axis, ...]:
        if not region.fits_rank:
            return (None,) * len(region.extents)
        return tuple((Origin(region.buffer, d, first, self._steps),) for d, first in enumerate(region.starts))

    def _put(self, access: RegionAccess, axes: Sequence[Axis]) -> None:
        region = access.region
        buffer = region.buffer
        if buffer.scope == "global":
            return
        if buffer.view_of is not None or len(axes) != len(buffer.shape):
            self._forget(buffer)
            return
        here = zip(axes, region.starts, access.extents, buffer.shape, strict=True)
        cells = [(axis, _all(s, e, n), as_int(e) == 1) for axis, s, e, n in here]
        given = tuple(axis if whole else () if one else None for axis, whole, one in cells)
        anew = access.mode == "write" and all(whole for _, whole, _ in cells)
        before = self._axes.get(buffer)
        self._axes[buffer] = given if anew or before is None else _joined(before, given)

    def _forget(self, buffer: Buffer) -> None:
        storage = buffer.storage
        for known in list(self._axes):
            if known.storage is storage:
                self._axes[known] = (None,) * len(known.shape)


def _matched(src: RegionAccess, axes: Sequence[Axis], dst: RegionAccess) -> list[Axis]:
    """Extents other than 1 are matched in order."""
    pairs = [(axis, e) for axis, e in zip(axes, src.extents, strict=True) if as_int(e) != 1]
    places = [d for d, e in enumerate(dst.extents) if as_int(e) != 1]
    found: list[Axis] = [()] * len(dst.extents)
    if len(pairs) != len(places):
        return [None] * len(dst.extents)
    for place, (axis, _) in zip(places, pairs, strict=True):
        found[place] = axis
    return found


def _last_two(axes: Sequence[Axis]) -> tuple[Axis, Axis]:
    return axes[-2], axes[-1]


def _all(start: Value, extent: Value, size: Value) -> bool:
    """Whether a region covers its dimension."""
    return as_int(start) == 0 and same_size(extent, size)


def _joined(one: Sequence[Axis], other: Sequence[Axis]) -> tuple[Axis, ...]:
    if len(one) != len(other):
        return (None,) * len(one)
    return tuple(
        None if a is None or b is None else _distinct([*a, *b]) for a, b in zip(one, other, strict=True)
    )


def _distinct(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    found: list[Origin] = []
    for origin in origins:
        if not any(_same(origin, o) for o in found):
            found.append(origin)
    return tuple(found)


def _same(a: Origin, b: Origin) -> bool:
    return a is b or (a.buffer is b.buffer and a.dim == b.dim and a.starts_with(b) is True)


def pairs(one: Axis, other: Axis) -> Iterator[tuple[Origin, Origin]]:
    """Each origin of one axis with each of the other."""
    for a in one or ():
        for b in other or ():
            yield a, b
