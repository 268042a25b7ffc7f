"""T.copy_cluster, and the mask of T.tma_copy: copies for other blocks of the cluster."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.diagnostics.rules.python import BAD_ARGUMENTS
from tilelang.frontend.arguments import Argument, Bound, as_region
from tilelang.frontend.operations.barriers import barrier_address
from tilelang.frontend.operations.thread_calls import CLUSTER_DIMS
from tilelang.frontend.operations.tile_ops import record_operation
from tilelang.frontend.operators import binary, cast
from tilelang.frontend.run import Run
from tilelang.frontend.scalars import any_unknown, named_type, scalar
from tilelang.ir import tile_ops
from tilelang.ir.prove import substitute
from tilelang.ir.tile_program import Access, Evaluate, For, Loop
from tilelang.ir.values import Index, Region, Unknown, as_int, show
from tilelang.ops.extents import copy_extents

_OF_COPY = ("src", "dst", "eviction_policy", "coalesced_width", "annotations", "loop_layout")


def dims_of(run: Run) -> list[int]:
    """Blocks of a cluster along x, y and z."""
    given = run.attrs.get(CLUSTER_DIMS)
    return [int(n) for n in str(given).split(",")] if given else [1, 1, 1]


def mask_of(run: Run, call: Bound) -> int | Unknown | None:
    """`cluster_mask`: None where it is not given; Unknown, and told, where it is none."""
    given = call.value("cluster_mask")
    if given is None or isinstance(given, Unknown):
        return given
    mask, size = as_int(given), math.prod(dims_of(run))
    if mask is not None and 0 < mask < 1 << size:
        return mask
    what = f"`cluster_mask` is known at compile time, one bit for each of the {size} blocks of the cluster"
    return run.report(
        BAD_ARGUMENTS, call.span_of("cluster_mask"), callee=call.callee, what=f"{what}, not {show(given)}"
    )


def copy_cluster(run: Run, call: Bound) -> None:
    """One of the three forms."""
    if run.launch is None:
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what="stands outside `with T.Kernel(...)`")
        return
    mask, rank = mask_of(run, call), call.value("dst_block")
    if isinstance(mask, Unknown) or isinstance(rank, Unknown):
        run.complete = False
        return
    if (mask is None) == (rank is None):
        what = "takes either `dst_block`, one other block of the cluster, or `cluster_mask`, several"
        run.report(BAD_ARGUMENTS, call.span, callee=call.callee, what=what)
        return
    if rank is None:
        _for_several(run, call, mask or 0)
        return
    number = scalar(run, rank, call.span_of("dst_block"))
    size = math.prod(dims_of(run))
    fixed = as_int(number)
    if isinstance(number, Unknown):
        run.complete = False
        return
    if not isinstance(number, ir.Expr | int) or (fixed is not None and not 0 <= fixed < size):
        what = f"`dst_block` is the rank of a block of the cluster, 0 to {size - 1}, not {show(rank)}"
        run.report(BAD_ARGUMENTS, call.span_of("dst_block"), callee=call.callee, what=what)
        return
    if call.value("remote_barrier") is None:
        _by_threads(run, call, cast("uint32", number))
        return
    _by_itself(run, call, cast("int32", number))


def _plain(call: Bound, **changed: Any) -> Bound:
    """The arguments that a plain copy has."""
    kept = {n: a for n, a in call.arguments.items() if n in _OF_COPY}
    return replace(call, arguments=kept | {n: Argument(v, call.span_of(n)) for n, v in changed.items()})


def _for_several(run: Run, call: Bound, mask: int) -> None:
    """Each block copies by itself what the lowest of the mask would copy for it: the same contents, and no
    block writes into another one that may still read.
    """
    src, dst = as_region(run, call, "src"), as_region(run, call, "dst")
    lost = any_unknown([src, dst])
    if lost is not None:
        run.complete = False
        return
    scopes = [r.buffer.scope if isinstance(r, Region) else named_type(r) for r in (src, dst)]
    if scopes != ["global", "shared"] or not isinstance(src, Region):
        what = f"with `cluster_mask` copies from global to shared memory, not from {scopes[0]} to {scopes[1]}"
        run.report(BAD_ARGUMENTS, call.span_of("dst"), callee=call.callee, what=what)
        return
    if call.value("remote_barrier") is not None:
        what = "takes `remote_barrier` with `dst_block` only"
        run.report(BAD_ARGUMENTS, call.span_of("remote_barrier"), callee=call.callee, what=what)
        return
    record_operation(run, "copy", {}, _plain(call, src=_as_in_lowest(run, src, mask)))


def _as_in_lowest(run: Run, src: Region, mask: int) -> Region:
    """`src` as the block of the lowest rank in the mask means it, in all blocks that the mask names."""
    launch, dims = run.launch, dims_of(run)
    assert launch is not None
    lowest = (mask & -mask).bit_length() - 1
    rank: Any = X.const(0, "int32")
    step, at = 1, {}
    for var, count in zip(launch.block_vars, dims, strict=False):
        if count > 1:
            inside = X.floormod(var, X.const(count, "int32"))
            rank = binary(ast.Add, rank, binary(ast.Mult, inside, step))
            first = X.floordiv(var, X.const(count, "int32")) * X.const(count, "int32")
            at[var] = first + X.const(lowest // step % count, "int32")
        step *= count
    if not at or src.indices is None:
        return src
    named = X.bitwise_and(X.shift_right(X.const(mask, "int32"), rank), X.const(1, "int32"))
    everyone = mask == (1 << math.prod(dims)) - 1
    values = {
        v: new if everyone else X.Select(X.NE(named, X.const(0, "int32")), new, v) for v, new in at.items()
    }

    def there(value: Any) -> Any:
        return run.analyzer.simplify(substitute(value, values)) if isinstance(value, ir.Expr) else value

    return Region(src.buffer, tuple(replace(i, start=there(i.start)) for i in src.indices), src.span)


def _by_itself(run: Run, call: Bound, rank: Any) -> None:
    """A bulk copy that arrives at the other block's barrier."""
    barrier = barrier_address(run, call, "remote_barrier")
    if isinstance(barrier, Unknown):
        run.complete = False
        return
    fixed = {"tma": True, "barrier": barrier, "rank": rank}
    record_operation(run, "copy", fixed, _plain(call))


def _by_threads(run: Run, call: Bound, rank: Any) -> None:
    """A loop over the elements, each of which a thread writes into the other block's memory."""
    src, dst = as_region(run, call, "src"), as_region(run, call, "dst")
    if any_unknown([src, dst]) is not None:
        run.complete = False
        return
    for name, side, allowed in (("src", src, ("shared", "local.fragment")), ("dst", dst, ("shared",))):
        if not isinstance(side, Region) or side.buffer.scope not in allowed:
            found = side.buffer.scope if isinstance(side, Region) else named_type(side)
            what = f"with `dst_block` copies from a tile to shared memory; `{name}` is in {found}"
            run.report(BAD_ARGUMENTS, call.span_of(name), callee=call.callee, what=what)
            return
    assert isinstance(src, Region) and isinstance(dst, Region)
    extents = copy_extents(src, dst)
    shapes = [[n for n in side if as_int(n) != 1] for side in (extents.src, extents.dst)]
    if extents.mismatches or [as_int(n) for n in shapes[0]] != [as_int(n) for n in shapes[1]]:
        what = f"`{src.text()}` and `{dst.text()}` differ in shape"
        run.report(BAD_ARGUMENTS, call.span_of("dst"), callee=call.callee, what=what)
        return
    names = tuple(run.fresh("ijklmn"[k % 6]) for k in range(len(shapes[0]))) or (run.fresh("i"),)
    loop = Loop("Parallel", names, (0,) * len(names), tuple(shapes[0]) or (1,), call.span)
    places = [_element(side, sizes, list(names)) for side, sizes in ((src, extents.src), (dst, extents.dst))]
    context = replace(run.context, loops=(*run.context.loops, loop))
    read = tuple(Index(i, None, call.span_of("src")) for i in places[0])
    load = X.BufferLoad(src.buffer.var, [_expr(i) for i in places[0]])
    run.accesses.append(Access(src.buffer, read, "read", call.span_of("src"), context, load))
    written = tuple(Index(i, None, call.span_of("dst")) for i in places[1])
    run.accesses.append(Access(dst.buffer, written, "write", call.span_of("dst"), context))
    value = cast(str(dst.buffer.dtype), load)
    target = X.address_of(X.BufferLoad(dst.buffer.var, [_expr(i) for i in places[1]]))
    body = tile_ops.call("tl.cluster_store", [target, rank, value], span=call.span)
    run.emit(For(loop, [Evaluate(body, call.span)]))


def _element(side: Region, extents: Any, names: list[ir.Var]) -> list[Any]:
    """The indices of an element: where the region begins, and the loop's variables along what it moves."""
    free = iter(names)
    starts = [0] * len(extents) if side.indices is None else list(side.starts)
    pairs = zip(starts, extents, strict=True)
    return [s if as_int(n) == 1 else binary(ast.Add, s, next(free)) for s, n in pairs]


def _expr(value: Any) -> Any:
    return X.const(value, "int32") if isinstance(value, int) else value
