"""Thread-level functions written by hand, as the contract in `targets.lowered` describes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import ir
from tvm import tirx as X

from tilelang.ir.tile_ops import call, seq


def at(line: int) -> ir.Span:
    return ir.Span(ir.SourceName("kernel.py"), line, line, 9, 40)


def kernel(
    name: str,
    params: list[Any],
    body: Callable[[Any, Any], Any],
    grid: Any,
    threads: int = 128,
    line: int = 2,
) -> X.PrimFunc:
    """One block axis `bx`, one thread axis `tx`; `body(bx, tx)` gives the statement."""
    bx, tx = X.Var("bx", "int32"), X.Var("tx", "int32")
    inner = body(bx, tx)
    for axis, var, extent in (("threadIdx.x", tx, threads), ("blockIdx.x", bx, grid)):
        iter_var = X.IterVar(None, var, X.IterVar.ThreadIndex, axis)
        extent = X.const(extent, "int32") if isinstance(extent, int) else extent
        inner = X.AttrStmt(iter_var, "thread_extent", extent, inner, at(line + 1))
    return X.PrimFunc(params, inner, span=at(line)).with_attr("global_symbol", name)


def vector_add(n: Any = 1000, dtype: str = "float32", vector: int = 1) -> X.PrimFunc:
    """C = A + B, `vector` elements a thread; the tail is guarded (for n a multiple of `vector`)."""
    a, b, c = (X.decl_buffer((n,), dtype, x) for x in "ABC")

    def body(bx: Any, tx: Any) -> Any:
        first = (bx * 128 + tx) * vector
        where = X.Ramp(first, 1, vector) if vector > 1 else first
        store = X.BufferStore(c, a[where] + b[where], [where], at(5))
        return X.IfThenElse(first < n, store, None, at(4))

    return kernel("add", [a, b, c], body, (n + 128 * vector - 1) // (128 * vector))


def statement_in_kernel(make: Callable[[Any, Any, Any], Any], dtype: str = "float32") -> X.PrimFunc:
    """`make(A, B, tx)` in a kernel over two global arrays of 4096 elements."""
    a, b = X.decl_buffer((4096,), dtype, "A"), X.decl_buffer((4096,), dtype, "B")
    return kernel("k", [a, b], lambda bx, tx: make(a, b, tx), 1)


def one_warp_gemm() -> tuple[X.PrimFunc, dict[Any, int]]:
    """C[16, 8] = A[16, 16] · B[8, 16]^T by one warp: cp.async, ldmatrix, mma, and the arena's offsets."""
    a, b = X.decl_buffer((256,), "float16", "A"), X.decl_buffer((128,), "float16", "B")
    c = X.decl_buffer((128,), "float32", "C")
    a_s, b_s = (
        X.decl_buffer((n,), "float16", f"{x}_shared", scope="shared") for n, x in ((256, "A"), (128, "B"))
    )
    a_l, b_l = (X.decl_buffer((n,), "float16", f"{x}_local", scope="local") for n, x in ((8, "A"), (8, "B")))
    acc = X.decl_buffer((4,), "float32", "C_local", scope="local")
    q = X.Var("q", "int32")

    def do(name: str, *args: Any, line: int) -> Any:
        return X.Evaluate(call(f"tl.cuda.{name}", list(args), span=at(line)), at(line))

    def body(bx: Any, tx: Any) -> Any:
        def ref(buffer: Any, index: Any) -> Any:
            return X.address_of(buffer[index])

        row, col = tx // 4 + q // 2 * 8, tx % 4 * 2 + q % 2
        return seq(
            [
                X.AllocBuffer(a_s, span=at(4)),
                X.AllocBuffer(b_s, span=at(5)),
                X.AllocBuffer(acc, span=at(6)),
                do("cp_async_16", ref(a_s, tx * 8), ref(a, tx * 8), line=8),
                X.IfThenElse(
                    tx < 16, do("cp_async_16", ref(b_s, tx * 8), ref(b, tx * 8), line=9), None, at(9)
                ),
                do("cp_async_commit", line=9),
                X.For(
                    q,
                    0,
                    4,
                    X.ForKind.UNROLLED,
                    X.BufferStore(acc, X.const(0, "float32"), [q], at(10)),
                    span=at(10),
                ),
                do("cp_async_wait", X.const(0, "int32"), line=11),
                do("sync", line=11),
                X.AllocBuffer(a_l, span=at(12)),
                X.AllocBuffer(b_l, span=at(12)),
                do("ldmatrix_x4", ref(a_l, 0), ref(a_s, tx % 16 * 16 + tx // 16 * 8), line=12),
                do("ldmatrix_x4", ref(b_l, 0), ref(b_s, tx % 8 * 16 + tx // 8 % 2 * 8), line=12),
                do("mma_m16n8k16_f16_f32", ref(acc, 0), ref(a_l, 0), ref(b_l, 0), line=12),
                X.For(
                    q,
                    0,
                    4,
                    X.ForKind.UNROLLED,
                    X.BufferStore(c, acc[q], [row * 8 + col], at(14)),
                    span=at(14),
                ),
            ]
        )

    return kernel("gemm", [a, b, c], body, 1, threads=32), {a_s: 0, b_s: 512}
