"""Kernels of explicit thread code: numbers of threads, barriers, shuffles, votes, divergent control flow."""

import tilelang
import tilelang.language as T


@tilelang.jit
def block_sum(A):
    """A tree in shared memory, barriers in a `while`."""
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N // 128,), "float32")
    with T.Kernel(N // 128, threads=128) as bx:
        tx = T.get_thread_binding(0)
        s = T.alloc_shared((128,), "float32")
        acc = T.alloc_local((1,), "float32")
        acc[0] = A[bx * 128 + tx]
        s[tx] = acc[0]
        T.sync_threads()
        n = T.alloc_var("int32", init=64)
        while n > 0:
            if tx < n:
                s[tx] = s[tx] + s[tx + n]
            T.sync_threads()
            n = n // 2
        if tx == 0:
            B[bx] = s[0]
    return B


@tilelang.jit
def transpose(A):
    """Threads in two dimensions and a padded tile."""
    N = T.const("N")
    A: T.Tensor((N, N), "float32")
    B = T.empty((N, N), "float32")
    with T.Kernel(T.ceildiv(N, 16), T.ceildiv(N, 16), threads=(16, 16)) as (bx, by):
        tx, ty, _ = T.get_thread_bindings()
        s = T.alloc_shared((16, 17), "float32")
        s[ty, tx] = A[by * 16 + ty, bx * 16 + tx]
        T.sync_threads()
        B[bx * 16 + ty, by * 16 + tx] = s[tx, ty]
    return B


@tilelang.jit
def gemv(A, x):
    """Private arrays, vector loads, a reduction over part of the block."""
    N, K = T.const("N, K")
    A: T.Tensor((N, K), "float16")
    x: T.Tensor((K,), "float16")
    y = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, 4), threads=(32, 4)) as bx:
        tk = T.get_thread_binding(0)
        tn = T.get_thread_binding(1)
        a = T.alloc_local((8,), "float16")
        b = T.alloc_local((8,), "float16")
        acc = T.alloc_local((1,), "float32")
        T.clear(acc)
        for k in T.serial(T.ceildiv(K, 256)):
            for v in T.vectorized(8):
                a[v] = A[bx * 4 + tn, k * 256 + tk * 8 + v]
                b[v] = x[k * 256 + tk * 8 + v]
            for v in T.serial(8):
                acc[0] += a[v].astype("float32") * b[v].astype("float32")
        total = T.warp_reduce_sum(acc[0])
        if tk == 0:
            y[bx * 4 + tn] = total
    return y


@tilelang.jit
def reversed_sums(A):
    """A private value that lives over barriers in a loop."""
    A: T.Tensor((8, 64), "float32")
    B = T.empty((8, 64), "float32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding(0)
        s = T.alloc_shared((64,), "float32")
        total = T.alloc_local((1,), "float32")
        total[0] = 0
        for i in T.serial(8):
            x = A[i, tx]
            s[tx] = x
            T.sync_threads()
            total[0] += s[63 - tx]
            B[i, tx] = total[0] + x
            T.sync_threads()
    return B


@tilelang.jit
def tiles_and_threads(A):
    """Tile operations, Parallel loops and thread code in one block."""
    A: T.Tensor((64, 64), "float32")
    B = T.empty((64, 64), "float32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding(0)
        s = T.alloc_shared((64, 64), "float32")
        f = T.alloc_fragment((64, 64), "float32")
        T.copy(A, s)
        for i in T.serial(32):
            u = s[tx, i]
            s[tx, i] = s[tx, 63 - i]
            s[tx, 63 - i] = u
        T.copy(s, f)
        for i, j in T.Parallel(64, 64):
            f[i, j] += 1
        T.copy(f, B)
    return B


@tilelang.jit
def jumps(A):
    """Loops whose bounds and exits differ between threads."""
    A: T.Tensor((64,), "int32")
    B = T.empty((64,), "int32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding(0)
        n = T.alloc_var("int32", init=0)
        for i in T.serial(A[tx]):
            if i == 5:
                continue
            if i == 20:
                break
            n += i
        B[tx] = n
    return B


@tilelang.jit
def shuffles(A, B):
    """Every shuffle, whole warps and segments."""
    A: T.Tensor((64,), "float32")
    B: T.Tensor((64,), "int32")
    C = T.empty((6, 64), "float32")
    D = T.empty((2, 64), "int32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding(0)
        a = A[tx]
        C[0, tx] = T.shfl_xor(a, 3)
        C[1, tx] = T.shfl_up(a, 5)
        C[2, tx] = T.shfl_down(a, 5)
        C[3, tx] = T.shfl_sync(a, 7)
        C[4, tx] = T.shfl_down(a, 3, 8)
        C[5, tx] = T.shfl_sync(a, 2, 16)
        D[0, tx] = T.shfl_xor(B[tx], 1) + T.shfl_sync(T.shfl_up(B[tx], 1), T.get_lane_idx() // 2)
        D[1, tx] = T.get_lane_idx() + 100 * T.get_warp_idx()
    return C, D


@tilelang.jit
def warp_sums(A):
    """A butterfly in a loop, then one warp alone sums up the others' results."""
    A: T.Tensor((4, 256), "float32")
    B = T.empty((4,), "float32")
    with T.Kernel(4, threads=256) as bx:
        tx = T.get_thread_binding(0)
        part = T.alloc_shared((8,), "float32")
        v = T.alloc_var("float32", init=0)
        v = A[bx, tx]
        for k in T.serial(5):
            v += T.shfl_xor(v, 16 >> k)
        if tx % 32 == 0:
            part[tx // 32] = v
        T.sync_threads()
        if tx < 32:
            w = T.alloc_var("float32", init=0)
            if tx < 8:
                w = part[tx]
            for k in T.serial(3):
                w += T.shfl_down(w, 4 >> k)
            if tx == 0:
                B[bx] = w
    return B


@tilelang.jit
def votes(A):
    """Votes of warps and of the block."""
    A: T.Tensor((96,), "int32")
    B = T.empty((9, 96), "int32")
    C = T.empty((2, 96), "uint32")
    with T.Kernel(1, threads=96):
        tx = T.get_thread_binding(0)
        a = A[tx]
        B[0, tx] = T.any_sync(a > 0)
        B[1, tx] = T.all_sync(a > 0)
        C[0, tx] = T.cast(T.ballot_sync(a > 0), "uint32")
        C[1, tx] = T.cast(T.ballot(a == 2), "uint32")
        B[2, tx] = T.syncthreads_count(a > 0)
        B[3, tx] = T.syncthreads_and(a >= 0)
        B[4, tx] = T.syncthreads_or(a > 1000)
        B[5, tx] = T.warp_reduce_max(a)
        B[6, tx] = T.warp_reduce_min(a) + T.warp_reduce_sum(a)
        B[7, tx] = T.warp_reduce_bitor(a)
        B[8, tx] = T.warp_reduce_bitand(a + 8)
    return B, C


@tilelang.jit
def matches(A):
    """Which lanes hold the same."""
    A: T.Tensor((64,), "int32")
    C = T.empty((2, 64), "uint32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding(0)
        C[0, tx] = T.match_any_sync(A[tx])
        C[1, tx] = T.match_all_sync(A[tx])
    return C


@tilelang.jit
def elected(A):
    """One thread stands for its group; the numbers of warp groups."""
    A: T.Tensor((256,), "int32")
    B = T.empty((256,), "int32")
    with T.Kernel(1, threads=256):
        tx = T.get_thread_binding(0)
        n = T.alloc_var("int32", init=0)
        if T.shuffle_elect(64):
            n += 1
        if T.shuffle_elect(0):
            n += 10
        B[tx] = n + 100 * T.get_warp_group_idx() + 1000 * T.get_warp_idx_sync() + A[tx]
    return B


@tilelang.jit
def uneven_meetings(A):
    """Threads meet in a loop whose length differs between warps."""
    A: T.Tensor((128,), "int32")
    B = T.empty((128,), "int32")
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding(0)
        n = T.alloc_var("int32", init=0)
        for i in T.serial(tx // 32 + 1):
            n += T.shfl_xor(A[tx], 1) + i
        while T.any_sync(n < 9):
            n += 1
        B[tx] = n
    return B


@tilelang.jit
def named_barriers(A):
    """Two halves of the block, each with a barrier of its own."""
    A: T.Tensor((128,), "float32")
    B = T.empty((128,), "float32")
    with T.Kernel(1, threads=128):
        tx = T.get_thread_binding(0)
        s = T.alloc_shared((128,), "float32")
        s[tx] = A[tx]
        if tx < 64:
            T.sync_threads(1, 64)
            B[tx] = s[63 - tx]
        else:
            T.sync_threads(2, 64)
            B[tx] = s[191 - tx]
    return B


@tilelang.jit
def grid_of_three(A):
    """Blocks in three dimensions, their numbers and extents by name."""
    A: T.Tensor((2, 3, 4), "int32")
    B = T.empty((2, 3, 4), "int32")
    with T.Kernel(4, 3, 2, threads=32) as (bx, by, bz):
        tx = T.get_thread_binding()
        if tx == 0:
            x, y, z = T.get_block_bindings()
            extents = T.get_block_extents()
            number = (z * extents[1] + y) * T.get_block_extent(0) + T.get_block_binding(0)
            B[bz, by, bx] = A[z, y, x] * 100 + number + T.get_thread_extent() + T.get_thread_extents()[1]
    return B
