"""Kernels whose author writes bulk copies by hand: descriptors, loads, stores, matrices of registers."""

import tilelang
import tilelang.language as T
from tilelang import tvm


@tilelang.jit(target="cuda -arch=sm_90a")
def moved(A, dtype="float16", code=6, swizzle=3, columns=64, shift=1, plain=False):
    """A moved up by `shift` rows, zeros below, through one descriptor in and another out."""
    M, N = T.dynamic("M, N")
    A: T.Tensor((M, N), dtype)
    B = T.empty((M, N), dtype)
    store = tvm.ir.Op.get("tl.tma_store")
    size = 2 if dtype == "float16" else 4

    def of(X, box_rows):
        return T.create_tma_descriptor(
            code, 2, X.data, N, M, size, T.cast(N, "int64") * size, columns, box_rows, 1, 1, 0, swizzle, 2, 0
        )

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, 32), threads=128) as (bx, by):
        tile = T.alloc_shared((32 * columns,), dtype)
        full = T.alloc_barrier([1])
        tx = T.get_thread_binding()
        if tx == 0:
            T.mbarrier_expect_tx(full[0], 32 * columns * size)
            if plain:
                T.tma_load(
                    T.access_ptr(tile[0], "w"),
                    T.access_ptr(A[by * 32 + shift, 0]),
                    full[0],
                    32 * columns * size,
                )
            else:
                T.tma_load(of(A, 32), full[0], T.access_ptr(tile[0], "w"), bx * columns, by * 32 + shift, 1)
            T.mbarrier_arrive(full[0])
        T.mbarrier_wait_parity(full[0], 0)
        if tx == 0:
            source = T.access_ptr(tile[0], "r")
            T.call_intrin("handle", store, of(B, 32), source, bx * columns, by * 32, 0, 0)
            T.tma_store_arrive()
            T.tma_store_wait(0)
    return B


@tilelang.jit(target="cuda -arch=sm_90a")
def matrices(A, turned=False):
    """Every warp stores 8 by 32 halves from its registers by stmatrix."""
    A: T.Tensor((4, 32, 8), "float16")
    B = T.empty((4, 4, 8, 8), "float16")
    pack, put = tvm.ir.Op.get("tl.pack_b16"), tvm.ir.Op.get("tl.ptx_stmatrix")
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((4, 4, 8, 8), "float16")
        tx = T.get_thread_binding()
        lane, warp = tx % 32, tx // 32
        mine = T.alloc_local((8,), "float16")
        for i in T.serial(8):
            mine[i] = A[warp, lane, i]
        T.call_intrin(
            "handle", put, int(turned), 4, T.access_ptr(tile[warp, lane // 8, lane % 8, 0], "w"),
            T.call_intrin("uint32", pack, mine[0], mine[1]),
            T.call_intrin("uint32", pack, mine[2], mine[3]),
            T.call_intrin("uint32", pack, mine[4], mine[5]),
            T.call_intrin("uint32", pack, mine[6], mine[7]),
            "m8n8",
        )  # fmt: skip
        T.copy(tile, B)
    return B
