"""Tile programs made by hand, for tests of rooms that come after the frontend."""

from __future__ import annotations

from tvm import tirx as X

from tilelang.diagnostics.span import Span
from tilelang.ir.build import build_prim_func
from tilelang.ir.spans import to_tvm
from tilelang.ir.tile_ops import region
from tilelang.ir.tile_program import (
    Alloc,
    Context,
    Do,
    For,
    Launch,
    Loop,
    Operand,
    OpRecord,
    Param,
    Store,
    TileProgram,
)
from tilelang.ir.values import Buffer, Index, Region
from tilelang.ops.copy import Copy
from tilelang.ops.fill import Fill
from tilelang.ops.gemm import Gemm


def at(line: int) -> Span:
    return Span("kernel.py", line, 9, line, 40)


def buffer(name: str, shape: tuple, dtype: str, scope: str, line: int, role=None) -> Buffer:
    return Buffer(name, scope, shape, dtype, at(line), at(line), role=role)


def start(buf: Buffer, *starts) -> Region:
    return Region(buf, tuple(Index(s, None, buf.span) for s in starts), buf.span)


def whole(buf: Buffer) -> Region:
    return Region(buf, None, buf.span)


def record(op: str, line: int, **operands) -> Do:
    return Do(
        OpRecord(op, at(line), at(line), {k: Operand(v, at(line)) for k, v in operands.items()}, Context())
    )


def _region(r: Region, extents) -> object:
    return region(r.buffer.var, list(r.starts), list(extents))


def _build_copy(r: OpRecord):
    src, dst = r.region("src"), r.region("dst")
    tile = src.extents if dst.is_point else dst.extents
    return Copy(_region(src, tile), _region(dst, tile), span=to_tvm(r.span)).call()


BUILD = {
    "copy": _build_copy,
    "fill": lambda r: Fill(
        _region(r.region("buffer"), r.region("buffer").extents),
        X.const(0, str(r.region("buffer").buffer.dtype)),
    ).call(),
    "gemm": lambda r: Gemm(*(_region(r.region(n), r.region(n).extents) for n in "ABC")).call(),
}


def vector_add(n=1000, threads: int = 128) -> X.PrimFunc:
    """C[i] = A[i] + B[i] with a ragged tail; `n` may be a TIRX variable."""
    a, b, c = (buffer(x, (n,), "float32", "global", 5, "parameter") for x in "ABC")
    bx, tx, i = (X.Var(v, "int32") for v in ("bx", "tx", "i"))
    g = bx * threads + i
    loop = Loop("Parallel", (i,), (0,), (threads,), at(8))
    store = Store(c, (g,), a.var[g] + b.var[g], at(9), Context())
    launch = Launch(((n + threads - 1) // threads,), (threads,), (bx,), (tx,), [For(loop, [store])], at(7))
    return _program("add", [a, b, c], [launch])


def gemm_relu(
    m=1024, n=1024, k=1024, bm=128, bn=128, bk=32, stages=3, threads=128, dtype="float16"
) -> X.PrimFunc:
    """C = relu(A @ B) as in the quickstart."""
    A, B = (
        buffer("A", (m, k), dtype, "global", 4, "parameter"),
        buffer("B", (k, n), dtype, "global", 5, "parameter"),
    )
    C = buffer("C", (m, n), dtype, "global", 6, "output")
    a, b = buffer("A_shared", (bm, bk), dtype, "shared", 9), buffer("B_shared", (bk, bn), dtype, "shared", 10)
    acc = buffer("C_local", (bm, bn), "float32", "local.fragment", 11)
    bx, by, tx, ko, i, j = (X.Var(v, "int32") for v in ("bx", "by", "tx", "ko", "i", "j"))
    main = For(
        Loop("Pipelined", (ko,), (0,), ((k + bk - 1) // bk,), at(14), annotations={"num_stages": stages}),
        [
            record("copy", 15, src=start(A, by * bm, ko * bk), dst=whole(a)),
            record("copy", 16, src=start(B, ko * bk, bx * bn), dst=whole(b)),
            record("gemm", 17, A=whole(a), B=whole(b), C=whole(acc)),
        ],
    )
    relu = For(
        Loop("Parallel", (i, j), (0, 0), (bm, bn), at(19)),
        [Store(acc, (i, j), X.Max(acc.var[i, j], X.const(0, "float32")), at(20), Context())],
    )
    body = [
        Alloc(a, at(9)),
        Alloc(b, at(10)),
        Alloc(acc, at(11)),
        record("fill", 13, buffer=whole(acc)),
        main,
        relu,
        record("copy", 22, src=whole(acc), dst=start(C, by * bm, bx * bn)),
    ]
    grid = ((n + bn - 1) // bn, (m + bm - 1) // bm)
    return _program("matmul_relu", [A, B, C], [Launch(grid, (threads,), (bx, by), (tx,), body, at(8))])


def _program(name: str, params: list[Buffer], body: list) -> X.PrimFunc:
    program = TileProgram(
        name,
        name,
        "eager",
        at(1),
        at(2),
        [Param(p.name, p, None, p.span) for p in params],
        body,
        params,
        [],
        [],
        [],
    )
    return build_prim_func(program, BUILD)
