"""A product of tiles by single wgmma instructions, in the forms that the tests ask for."""

import tilelang
import tilelang.language as T


@tilelang.jit(target="cuda -arch=sm_90a")
def product(
    A,
    B,
    dtype="float16",
    short="fp16",
    n=64,
    K=64,
    b_turned=False,
    registers=False,
    plain=False,
    sign=True,
    wait=0,
):
    A: T.Tensor((64, K), dtype)
    B: T.Tensor((K, n) if b_turned else (n, K), dtype)
    C = T.empty((64, n), "float32")
    with T.Kernel(1, threads=128):
        size = 16 if dtype == "float16" else 8
        k_step, per = 256 // size, 32 // size
        a = T.alloc_shared((64, K), dtype)
        b = T.alloc_shared((K, n) if b_turned else (n, K), dtype)
        c = T.alloc_local((n // 2,), "float32")
        held = T.alloc_local((K // k_step * 4 * per,), dtype)
        if plain:
            wide = 4 * per
            T.annotate_layout(
                {
                    a: T.Layout(a.shape, lambda i, j: j // wide * (64 * wide) + i * wide + j % wide),
                    b: T.Layout(b.shape, lambda i, j: j // wide * (n * wide) + i * wide + j % wide),
                }
            )
        else:
            T.annotate_layout({tile: tilelang.layout.make_swizzled_layout(tile) for tile in (a, b)})
        T.copy(A, a)
        T.copy(B, b)
        tx = T.get_thread_binding()
        for e in T.serial(K // k_step * 4 * per):
            row = tx // 32 * 16 + tx % 32 // 4 + e // per % 2 * 8
            column = e // (4 * per) * k_step + e // (2 * per) % 2 * (4 * per) + tx % 4 * per + e % per
            held[e] = A[row, column]
        da = T.alloc_descriptor("wgmma")
        db = T.alloc_wgmma_desc()
        if plain:
            T.initialize_wgmma_descriptor(da, T.access_ptr(a[0, 0], "r"), 0, 64, 8)
            T.initialize_wgmma_descriptor(db, T.access_ptr(b[0, 0], "r"), 0, n, 8)
        else:
            T.initialize_wgmma_descriptor(da, T.access_ptr(a[0, 0], "r"), 1, 1, 64)
            T.initialize_wgmma_descriptor(db, T.access_ptr(b[0, 0], "r"), 1, K * 8 if b_turned else 1, 64)
        a_step = 128 if plain else 2
        b_step = 2 * n if plain else 128 if b_turned else 2
        T.warpgroup_fence_operand(c, num_regs=n // 2)
        T.warpgroup_fence_operand(held)
        T.warpgroup_arrive()
        size_of = f"m64n{n}k{k_step}"
        for ki in T.unroll(K // k_step):
            if registers:
                T.ptx_wgmma_rs(
                    "float32",
                    size_of,
                    not b_turned,
                    short,
                    short,
                    "fp32",
                    held.data,
                    ki * 4 * per,
                    db.data,
                    ki * b_step,
                    c.data,
                    0,
                    T.Select(ki > 0, 1, 0),
                    sign,
                    True,
                )
            else:
                T.ptx_wgmma_ss(
                    "float32",
                    size_of,
                    True,
                    not b_turned,
                    short,
                    short,
                    "fp32",
                    da.data,
                    ki * a_step,
                    db.data,
                    0,
                    c.data,
                    0,
                    T.Select(ki > 0, 1, 0),
                    True,
                    sign,
                )
                T.increase_descriptor_offset(db, b_step * 16)
        T.warpgroup_commit_batch()
        T.warpgroup_wait(wait)
        T.warpgroup_fence_operand(c, num_regs=n // 2)
        for i in T.serial(n // 2):
            C[tx // 32 * 16 + tx % 32 // 4 + i // 2 % 2 * 8, i // 4 * 8 + tx % 4 * 2 + i % 2] = c[i]
    return C
