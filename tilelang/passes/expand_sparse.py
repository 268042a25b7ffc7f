"""T.gemm_sp -> a loop that writes A out, zeros included, and a T.gemm, where the target has nothing better.

In:  a tile function with `tl.gemm_sp`.
Out: the same without those that `keep` does not hold for. The dense A has a shared tile of its own, allocated
     at the top of the launch.
Not: any speed; matrix units that take the stored half are the target's (`targets.cuda.ops.gemm_sp`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import tirx as X

from tilelang.arch.dtypes import dtype_info
from tilelang.ir import tile_ops
from tilelang.ir.build import LOOP_KIND
from tilelang.ir.tile_ops import seq
from tilelang.ops.copy import Copy
from tilelang.ops.gemm import Gemm
from tilelang.ops.gemm_sp import CODE_BITS, SparseGemm, group
from tilelang.passes.walk import FRAGMENT, calls, index, remake, walk


def expand_sparse(func: X.PrimFunc, keep: Callable[[SparseGemm], bool] = lambda _: False) -> X.PrimFunc:
    """Apply the pass."""
    if not any(tile_ops.is_call(c, tile_ops.GEMM_SP) for c in calls(func.body)):
        return func
    tiles: list[Any] = []

    def rewrite(stmt: Any) -> Any:
        if isinstance(stmt, X.Evaluate) and tile_ops.is_call(stmt.value, tile_ops.GEMM_SP):
            gemm = SparseGemm.read(stmt.value)
            return stmt if keep(gemm) else _written_out(gemm, tiles)
        if isinstance(stmt, X.AttrStmt) and not any(isinstance(s, X.AttrStmt) for s in walk(stmt.body)):
            body, before = rewrite(stmt.body), list(tiles)
            tiles.clear()
            body = seq([*(X.AllocBuffer(t, span=stmt.span) for t in before), body])
            return X.AttrStmt(stmt.node, stmt.attr_key, stmt.value, body, stmt.span)
        return remake(stmt, rewrite)

    return func.with_body(rewrite(func.body))


def _written_out(gemm: SparseGemm, tiles: list[Any]) -> Any:
    """`for i, k in T.Parallel(M, K): dense[i, k] = what is stored for it, or 0`, and the product."""
    m, _, size = gemm.shape
    stored = gemm.a.source
    before: Any = None
    if stored.scope() == FRAGMENT:  # elements of other threads are read
        rows, columns = (int(r.extent) for r in gemm.a.region[-2:])
        kept = X.decl_buffer((rows, columns), str(stored.dtype), f"{stored.name}_stored", scope="shared")
        tiles.append(kept)
        whole = tile_ops.region(kept, [index(0), index(0)], [index(rows), index(columns)])
        before = Copy(gemm.a, whole, span=gemm.span).call()
        gemm = replace(gemm, a=whole)
    dense = X.decl_buffer((m, size), str(stored.dtype), f"{stored.name}_dense", scope="shared")
    tiles.append(dense)
    i, k = X.Var("i", "int32"), X.Var("k", "int32")
    body: Any = X.BufferStore(dense, _dense_element(gemm, i, k), [i, k], gemm.span)
    for var, extent in ((k, size), (i, m)):
        notes = {LOOP_KIND: "Parallel"}
        body = X.For(
            var, index(0), index(extent), X.ForKind.PARALLEL, body, annotations=notes, span=gemm.span
        )
    whole = tile_ops.region(dense, [index(0), index(0)], [index(m), index(size)])
    product = Gemm(
        whole,
        gemm.b,
        gemm.c,
        False,
        gemm.transpose_b,
        gemm.policy,
        gemm.clear_accum,
        gemm.asynchronous,
        gemm.span,
    )
    return seq([before, body, product.call()])


def _dense_element(gemm: SparseGemm, i: Any, k: Any) -> Any:
    """The element of the dense A in row i and column k."""
    dtype, codes = str(gemm.a.source.dtype), dtype_info(str(gemm.e.source.dtype))
    size, coded = group(dtype), codes.bits // CODE_BITS
    number, at = X.floordiv(k, index(size)), X.floormod(k, index(size))
    wide = "uint64" if codes.bits > 32 else "uint32"
    shift = X.Cast(wide, X.floormod(number, index(coded)) * CODE_BITS)
    held = _element(gemm.e, i, X.floordiv(number, index(coded)), gemm.transpose_e)
    code = X.shift_right(X.Cast(wide, held), shift)
    value: Any = X.const(0, dtype)
    for n in reversed(range(size // 2)):
        kept = _element(gemm.a, i, number * (size // 2) + n, gemm.transpose_a)
        value = X.Select(X.EQ(_position(code, n, size, wide), at), kept, value)
    return value


def _position(code: Any, number: int, size: int, dtype: str) -> Any:
    """Where in its group the stored element `number` of it stands, an int32."""
    low = 2 * number if size == 4 else 1  # of a 32-bit element the upper bit of its first half counts
    found = X.shift_right(code, X.const(low, dtype))
    return X.Cast("int32", X.bitwise_and(found, X.const(3 if size == 4 else 1, dtype)))


def _element(region: Any, row: Any, column: Any, turned: bool) -> Any:
    """The element in a row and a column of a region's last two dimensions."""
    *leading, first, second = (r.min for r in region.region)
    places = (column, row) if turned else (row, column)
    inner = [start + place for start, place in zip((first, second), places, strict=True)]
    return X.BufferLoad(region.source, [*leading, *inner])
