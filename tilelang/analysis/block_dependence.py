"""On which block variables the contents of each tile depend where they are written to global memory.

The program is followed in order: a whole tile written anew forgets what it held, everything else adds to it.
Loops are followed until nothing changes. What an unknown call touches may depend on anything; it is marked so
that nothing is claimed about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tilelang.analysis.subject import Subject
from tilelang.diagnostics.span import Span
from tilelang.ir.expressions import loads_of
from tilelang.ir.prove import free_vars, substitute
from tilelang.ir.tile_program import Bind, Context, Do, Evaluate, For, If, Launch, Node, OpRecord, Store
from tilelang.ir.values import Buffer, Unknown, Value, add, as_int
from tilelang.ops.registry import PRODUCTS, TILE_OPS

from tvm import ir  # isort: skip
from tvm_ffi import structural_walk  # isort: skip
from tvm import tirx as X  # isort: skip

Dependence = frozenset[object]  # block variables, UNKNOWN and PRODUCT
UNKNOWN = "unknown"
PRODUCT = "product"  # values that a T.gemm made
_NOTHING: Dependence = frozenset()
_FOLLOWED = frozenset({"copy", "fill", *PRODUCTS, "reduce", "scan", "transpose", "im2col"})
_MOST_ROUNDS = 8


@dataclass(frozen=True, eq=False)
class GlobalWrite:
    """One write to global memory: on what the place depends, and on what the values do.

    `updates`: the new values are made from the old ones; `adds`: by a sum or a product, which changes them
    whatever else goes into it. `apart`: what keeps blocks from writing there both, in place and condition;
    less than these where the steps of a loop that begins or ends elsewhere in each block are others' too.
    """

    buffer: Buffer
    starts: tuple[Value, ...]
    extents: tuple[Value, ...]
    span: Span
    context: Context
    place: Dependence
    values: Dependence
    condition: Dependence
    updates: bool
    adds: bool = False
    apart: Dependence = _NOTHING


def global_writes(subject: Subject) -> list[GlobalWrite]:
    """All writes to global memory by copies and stores, in program order."""
    if subject.launch is None:
        return []
    follower = _Follower(subject)
    follower.nodes(subject.launch.body, _NOTHING)
    return list(follower.writes.values())


_Held = tuple[dict[Buffer, Dependence], dict[ir.Var, Dependence], dict[ir.Var, Dependence]]


class _Follower:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        assert subject.launch is not None
        self._blocks = frozenset(subject.launch.block_vars)
        self._by_var = {b.var: b for b in subject.program.buffers if b.known}
        self._tiles: dict[Buffer, Dependence] = {}
        self._scalars: dict[ir.Var, Dependence] = {}
        # Of loops whose ranges overlap for all blocks: on what the shared steps depend.
        self._shared: dict[ir.Var, Dependence] = {}
        self._among: Dependence = _NOTHING
        self._inside = False  # a loop
        # What a loop did when it was entered like this: loops in loops are gone through again and again.
        self._gone_through: dict[object, tuple[_Held, dict[object, GlobalWrite]]] = {}
        self.writes: dict[object, GlobalWrite] = {}

    def nodes(self, nodes: Iterable[Node], condition: Dependence) -> None:
        for node in nodes:
            match node:
                case Do():
                    self._op(node.record, condition)
                case Store():
                    self._store(node, condition)
                case Bind():
                    self._scalars[node.var] = self._of(node.value)
                case Evaluate():
                    self._call(node.value)
                case For():
                    self._loop(node, condition)
                case If():
                    decides = self._of(node.condition)
                    with self._reached(self._of(node.condition, shared=True)):
                        self.nodes(node.body, condition | decides)
                        self.nodes(node.orelse, condition | decides)
                case Launch():
                    self.nodes(node.body, condition)

    def _loop(self, node: For, condition: Dependence) -> None:
        """The body until nothing changes; what is known of a loop that was entered alike is taken over."""
        if not self._inside:
            self._inside = True
            self._until_settled(node, condition)
            self._inside = False
            return
        held = frozenset(self._tiles.items()), frozenset(self._scalars.items())
        key = id(node), held, condition, self._among, frozenset(self._shared.items())
        known = self._gone_through.get(key)
        if known is not None:
            (tiles, scalars, shared), written = known
            self._tiles, self._scalars, self._shared = dict(tiles), dict(scalars), dict(shared)
            self.writes |= written
            return
        before, self.writes = self.writes, {}
        self._until_settled(node, condition)
        written, self.writes = self.writes, before | self.writes
        now = dict(self._tiles), dict(self._scalars), dict(self._shared)
        self._gone_through[key] = now, written

    def _until_settled(self, node: For, condition: Dependence) -> None:
        loop = node.loop
        bounds = self._all((*loop.mins, *loop.extents, node.condition))
        meets = bounds - self._overlapping(node)
        if meets != bounds:
            self._shared |= dict.fromkeys(loop.vars, meets)
        for _ in range(_MOST_ROUNDS):
            before = dict(self._tiles), dict(self._scalars)
            for var in loop.vars:
                self._scalars[var] = self._scalars.get(var, _NOTHING) | bounds
            with self._reached(meets):
                self.nodes(node.body, condition | bounds)
            for tile, held in before[0].items():  # the body may not have run
                self._tiles[tile] = self._tiles.get(tile, _NOTHING) | held
            if before == (self._tiles, self._scalars):
                return

    @contextmanager
    def _reached(self, decides: Dependence) -> Iterator[None]:
        """The body of a loop or a branch, to which `decides` lets blocks come."""
        before, self._among = self._among, self._among | decides
        yield
        self._among = before

    def _overlapping(self, node: For) -> Dependence:
        """The block variables that move one end of a loop and not the other, so that blocks share steps."""
        loop = node.loop
        if len(loop.vars) != 1 or node.condition is not None or as_int(loop.step) != 1:
            return _NOTHING
        low, count = loop.mins[0], loop.extents[0]
        if isinstance(low, Unknown) or isinstance(count, Unknown) or loop in self._subject.loops_with_jumps:
            return _NOTHING
        prover, found = self._subject.prover, set()
        end = prover.simplify(add(low, count))
        for var in self._blocks & (free_vars(low) | free_vars(count)):
            if var in free_vars(low) and var in free_vars(end):
                continue
            counts = [as_int(prover.simplify(substitute(count, {var: at}))) for at in (0, 1)]
            if all(n is None or n > 0 for n in counts):  # some blocks have steps to share
                found.add(var)
        return frozenset(found)

    def _of(self, value: object, shared: bool = False) -> Dependence:
        """On what a scalar depends: block variables, scalars bound before, the contents of what it reads.
        `shared`: of the steps of loops that several blocks come to.
        """
        if isinstance(value, Unknown):
            return frozenset({UNKNOWN})
        found: set[object] = set()
        for var in free_vars(value):
            if var in self._blocks:
                found.add(var)
            elif shared and var in self._shared:
                found |= self._shared[var]
            elif var in self._by_var:
                found |= self._tiles.get(self._by_var[var].storage, _NOTHING)
                if hands_out(value):
                    found.add(UNKNOWN)
            else:
                found |= self._scalars.get(var, _NOTHING)
        return frozenset(found)

    def _all(self, values: Iterable[object]) -> Dependence:
        return frozenset().union(*(self._of(v) for v in values if v is not None))

    def _op(self, record: OpRecord, condition: Dependence) -> None:
        accesses = self._subject.accesses(record)
        if record.op == "atomic":
            self._atomic(record, condition)
            return
        if record.op not in _FOLLOWED:
            touched = [a.region.buffer for a in accesses] if record.op in TILE_OPS else []
            for operand in record.operands.values():
                touched += [self._by_var[v] for v in free_vars(operand.value) if v in self._by_var]
            self._forget(touched)
            return
        moved = {a.argument for a in accesses}  # the others say what is made, as T.im2col's steps
        values = self._all(o.value for n, o in record.operands.items() if n not in moved)
        if record.op in PRODUCTS:
            values |= {PRODUCT}
        for access in accesses:
            if access.mode != "write":
                values |= self._tiles.get(access.region.buffer.storage, _NOTHING)
                values |= self._all(access.region.starts)
        for access in accesses:
            if access.mode == "read":
                continue
            region = access.region
            whole = region.whole and region.buffer.view_of is None and access.mode == "write"
            anew = whole and not record.context.maybe and not record.context.guards
            self._put(region.buffer, values | condition, anew)
            if region.buffer.scope == "global" and region.fits_rank:
                self._note(
                    record, region.buffer, region.starts, access.extents, record.span_of(access.argument),
                    record.context, values, condition, updates=False,
                )  # fmt: skip

    def _atomic(self, record: OpRecord, condition: Dependence) -> None:
        """Of a tile of the block's own what its threads add is known; a tensor is every block's."""
        old = record.value("result")
        values = self._all(o for n in ("values", "value") for o in _each(record.value(n))) | condition
        for access in self._subject.accesses(record):
            region = access.region
            if access.mode == "read":
                values |= self._tiles.get(region.buffer.storage, _NOTHING) | self._all(region.starts)
            elif region.buffer.scope == "global" or old is not None:
                self._forget([region.buffer])
            else:
                self._put(region.buffer, values | self._all(region.starts), anew=False)
        if old is not None:  # what a block finds depends on who came before it
            self._scalars[old] = frozenset({UNKNOWN})

    def _store(self, node: Store, condition: Dependence) -> None:
        values = self._of(node.value)
        self._put(node.buffer, values | condition | self._all(node.indices), anew=False)
        if node.buffer.scope == "global":
            known = node.buffer.known
            own = [n for n in loads_of(node.value) if known and n.source.same_as(node.buffer.var)]
            updates = any([str(i) for i in load.indices] == [str(i) for i in node.indices] for load in own)
            ones = (1,) * len(node.indices)
            adds = updates and isinstance(node.value, X.Add | X.Sub | X.Mul)
            self._note(
                node,
                node.buffer,
                node.indices,
                ones,
                node.span,
                node.context,
                values,
                condition,
                updates,
                adds,
            )

    def _note(
        self,
        key: object,
        buffer: Buffer,
        starts: Sequence[Value],
        extents: Sequence[Value],
        span: Span,
        context: Context,
        values: Dependence,
        condition: Dependence,
        updates: bool,
        adds: bool = False,
    ) -> None:
        self.writes[key] = GlobalWrite(
            buffer,
            tuple(starts),
            tuple(extents),
            span,
            context,
            self._all(starts),
            values,
            condition,
            updates,
            adds,
            frozenset().union(self._among, *(self._of(s, shared=True) for s in starts)),
        )

    def _put(self, buffer: Buffer, values: Dependence, anew: bool) -> None:
        before = _NOTHING if anew else self._tiles.get(buffer.storage, _NOTHING)
        self._tiles[buffer.storage] = before | values

    def _call(self, value: object) -> None:
        self._forget([self._by_var[v] for v in free_vars(value) if v in self._by_var])

    def _forget(self, buffers: Iterable[Buffer]) -> None:
        for buffer in buffers:
            held = self._tiles.get(buffer.storage, _NOTHING)
            self._tiles[buffer.storage] = held | {UNKNOWN}


def _each(value: object) -> Sequence[object]:
    return value if isinstance(value, tuple | list) else (value,)


def hands_out(value: object) -> bool:
    """Whether a value comes from code that is given an address, such as that of `atomicAdd`."""
    calls: list[ir.Call] = []
    structural_walk(value, (ir.Call, calls.append))
    return any(getattr(call.op, "name", "").endswith(("address_of", "access_ptr")) for call in calls)
