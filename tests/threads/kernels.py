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
def part_of_a_warp(A):
    """Warps that a block does not fill: its last, its only one, one of a block of two dimensions."""
    A: T.Tensor((48,), "int32")
    B = T.empty((5, 48), "int32")
    C = T.empty((2, 16), "float32")
    D = T.empty((42,), "int32")
    with T.Kernel(1, threads=48):
        tx = T.get_thread_binding()
        B[0, tx] = T.warp_reduce_sum(A[tx])
        B[1, tx] = T.warp_reduce_max(A[tx]) + T.ballot(A[tx] > 20)
        B[2, tx] = T.warp_reduce_min(A[tx] + 100)
        B[3, tx] = T.warp_reduce_bitand(A[tx] + 64)
        B[4, tx] = T.warp_reduce_bitor(A[tx]) + T.shfl_xor(A[tx], 15)
    with T.Kernel(1, threads=16):
        tx = T.get_thread_binding()
        C[0, tx] = T.warp_reduce_sum(T.cast(A[tx], "float32") * 0.5)
        C[1, tx] = T.warp_reduce_max(-T.cast(A[tx], "float32") - 3)
    with T.Kernel(1, threads=(6, 7)):
        tx, ty, _ = T.get_thread_bindings()
        D[ty * 6 + tx] = T.warp_reduce_min(A[ty * 6 + tx])
    return B, C, D


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
        s[tx] = B[tx]
        T.sync_threads(3)  # all threads of the block
        B[tx] = s[tx ^ 64]
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


@tilelang.jit
def persistent_loop(A):
    """Five blocks share the tiles of a matrix that groups do not divide."""
    A: T.Tensor((10, 9), "float32")
    B = T.empty((10, 9), "float32")
    with T.Kernel(5, threads=32) as bx:
        for m, n in T.Persistent([10, 9], 5, bx, group_size=4):
            for i in T.Parallel(1):
                B[m, n + i] = A[m, n + i] + 1
    return B


@tilelang.jit
def persistent_scheduler(A, by_columns: bool = True):
    """The language's own scheduler; every tile once."""
    A: T.Tensor((8, 6), "float32")
    B = T.empty((8, 6), "float32")
    with T.Kernel(5, threads=32) as bx:
        tiles = T.PersistentTileScheduler(8, 6, 5, swizzle_size=4, column_major=by_columns)
        tiles.init(bx)
        while tiles.valid():
            for i in T.Parallel(1):
                B[tiles.m_idx, tiles.n_idx + i] = A[tiles.m_idx, tiles.n_idx + i] + 1
            tiles.next_tile()
    return B


@T.meta_class
class Diagonal(T.BaseTileScheduler):
    """A scheduler of one's own: the diagonal, every third element."""

    num_workers = 3

    def __init__(self, size):
        super().__init__()
        self.size = size

    def update_current_idx(self, linear_idx):
        self._m_idx = linear_idx
        self._n_idx = self.size - 1 - linear_idx

    def valid(self):
        return self.linear_idx < self.size


@tilelang.jit
def own_scheduler(A):
    """A class of the module's, its methods written into the kernel."""
    A: T.Tensor((10, 10), "float32")
    B = T.empty((10,), "float32")
    with T.Kernel(3, threads=32) as bx:
        places = Diagonal(10)
        places.init(bx)
        while places.valid():
            for i in T.Parallel(1):
                B[places.m_idx + i] = A[places.m_idx + i, places.n_idx]
            places.next_tile()
    return B


class Counter:
    """An ordinary class with variables of the kernel."""

    def __init__(self, step):
        self.step = step
        self.total = T.alloc_var("int32", init=0)

    @T.inline
    def add(self, value):
        self.total += value * self.step

    @property
    def doubled(self):
        return self.total * 2


@T.macro
def add_to(x: T.Ref, n):
    """By reference: a variable or an element."""
    x += n


@T.macro
def twice_and_more(x, more=1):
    """Returns a value, and calls itself while it is compiled."""
    if more > 3:
        return x
    return twice_and_more(x * 2, more + 1)


@T.macro
def row_sums(s: T.SharedBuffer((16, 32), "float32"), out: T.FragmentBuffer((16,), "float32")):
    """Buffers by their kind."""
    T.reduce_sum(s, out, dim=1)


@tilelang.jit
def macros_and_classes(A):
    """T.Ref, returned values, recursion, buffers, objects with variables."""
    A: T.Tensor((64,), "int32")
    B = T.empty((3, 64), "int32")
    with T.Kernel(1, threads=64):
        total = T.alloc_var(T.int32, 0)
        kept = T.alloc_shared((64,), "int32")
        counter = Counter(3)
        for i in T.serial(64):
            add_to(total, A[i])
            kept[i] = 1
            add_to(kept[i], total)
            counter.add(A[i])
            B[0, i] = kept[i]
            B[1, i] = twice_and_more(A[i])
            B[2, i] = counter.doubled + counter.step
    return B


@tilelang.jit
def tiles_by_macro(A):
    A: T.Tensor((16, 32), "float32")
    B = T.empty((16,), "float32")
    with T.Kernel(1, threads=64) as (_,):
        s = T.alloc_shared((16, 32), "float32")
        f = T.alloc_fragment((16,), "float32")
        T.copy(A, s)
        row_sums(s, f)
        T.copy(f, B)
    return B


@tilelang.jit
def loops(A):
    """Steps, exits, swaps, chains, loops over Python values."""
    A: T.Tensor((64,), "int32")
    B = T.empty((8,), "int32")
    with T.Kernel(1, threads=32):
        a = T.alloc_var("int32", init=1)
        b = T.alloc_var("int32", 1)
        n = T.alloc_var("int32", "local.var")
        for i in T.serial(0, 10, 3):
            n += i
        B[0] = n
        n = 0
        for i in T.serial(10, 0, -2):
            n += i
        B[1] = n
        for _ in T.unroll(8):
            a, b = b, a + b
        B[2] = a
        n = a = b = 5
        while True:
            n += 1
            if n % 7 == 0:
                T.continue_loop()
            if n == 18:
                continue
            if n > 20:
                T.loop_break()
            a += 1
        B[3] = a * 100 + n
        n = 0
        for k, (x, y) in enumerate(zip([3, 4, 5], (6, 7, 8), strict=True)):
            n += k * x * y
        B[4] = n
        n = 0
        for i in range(A[5]):
            for j in T.grid(3, 2):
                if i == 4:
                    break
                n += j[0] * 2 + j[1]
        B[5] = n
        n = 10
        n -= 3
        n *= 2
        n //= 3
        B[6] = B[7] = n
    return B


@tilelang.jit
def three_launches(A):
    """Each launch sees what the one before wrote; grids, threads and shared memory of their own."""
    N = T.const("N")
    A: T.Tensor((N, 32), "float32")
    B = T.empty((N, 32), "float32")
    C = T.empty((N,), "float32")
    D = T.empty((32,), "float32")
    with T.Kernel(T.ceildiv(N, 16), threads=64) as bx:
        s = T.alloc_shared((16, 32), "float32")
        T.copy(A[bx * 16, 0], s)
        for i, j in T.Parallel(16, 32):
            s[i, j] = T.exp2(s[i, j])
        T.copy(s, B[bx * 16, 0])
    with T.Kernel(N, threads=32) as by:
        tx = T.get_thread_binding()
        row = T.warp_reduce_sum(B[by, tx])
        if tx == 0:
            C[by] = row
    with T.Kernel(1, threads=32):
        for j in T.Parallel(32):
            D[j] = B[0, j] / C[0]
    return B, C, D


@tilelang.jit
def grid_steps(A):
    """Blocks wait for each other twice; tiles, fragments and variables live over the barriers."""
    A: T.Tensor((8, 64), "float32")
    B = T.empty((8, 64), "float32")
    with T.Kernel(8, threads=64) as bx:
        tx = T.get_thread_binding()
        s = T.alloc_shared((64,), "float32")
        f = T.alloc_fragment((64,), "float32")
        v = T.alloc_var("float32", init=0)
        T.copy(A[bx, 0], s)
        T.copy(s, f)
        v = A[bx, tx] * 2
        for i in T.Parallel(64):
            B[bx, i] = f[i] + 1
        for k in T.serial(2):
            T.sync_grid()
            w = B[(bx + 1) % 8, tx]
            T.sync_grid()
            B[bx, tx] = w + v + s[tx] + k
        T.sync_grid()
        for i in T.Parallel(64):
            f[i] += B[bx, i]
        T.copy(f, B[bx, 0])
    return B


SOURCE = """
__device__ float shifted(float x, int n) { return x + n; }
__device__ void add_one(float* p) { *p += 1.0f; }
"""


@tilelang.jit
def foreign(A):
    """Functions of the target's language, by value and by address."""
    A: T.Tensor((128,), "float32")
    B = T.empty((128,), "float32")
    with T.Kernel(1, threads=128):
        T.import_source(SOURCE)
        T.annotate_min_blocks_per_sm(2)
        T.annotate_compile_flags("-DUNUSED=1")
        tx = T.get_thread_binding()
        s = T.alloc_shared((128,), "float32")
        x = T.call_extern("float32", "shifted", A[tx], 3)
        s[tx] = x
        T.call_extern("handle", "add_one", T.address_of(s[tx]))
        T.sync_threads()
        B[tx] = s[127 - tx]
        T.call_extern("handle", "add_one", T.access_ptr(B[tx], "rw"))
    return B


@tilelang.jit
def library_functions(A):
    """Functions that the compiler or the C library knows by their names."""
    A: T.Tensor((128,), "float32")
    B = T.empty((128,), "float32")
    with T.Kernel(1, threads=128):
        for i in T.Parallel(128):
            B[i] = T.call_pure_extern("float32", "fabsf", A[i]) + T.call_intrin("float32", "tir.exp2", A[i])
    return B


@tilelang.jit
def by_pointer(dtype: str = "float32"):
    """Pointers as arguments; sizes as scalars; one memory under two shapes."""

    @T.prim_func
    def main(a: T.ptr, b: T.ptr("float32"), m: T.int32, n: T.int32, scale: T.float32):
        A = T.make_tensor(a, (m, n), dtype)
        B = T.make_tensor(b, (n, m), dtype)
        flat = T.make_tensor(b, (n * m,), dtype)
        with T.Kernel(T.ceildiv(m, 16), T.ceildiv(n, 16), threads=64) as (bx, by):
            for i, j in T.Parallel(16, 16):
                if bx * 16 + i < m and by * 16 + j < n:
                    B[by * 16 + j, bx * 16 + i] = A[bx * 16 + i, by * 16 + j] * scale
            if bx == 0 and by == 0:
                for i in T.Parallel(1):
                    flat[i] = -1.0

    return main


@tilelang.jit
def warp_groups(A):
    """Two warp groups with work of their own; copies by part of the block."""
    A: T.Tensor((2, 300), "float32")
    B = T.empty((2, 300), "float32")
    with T.Kernel(1, threads=256):
        s = T.alloc_shared((2, 300), "float32")
        tx = T.get_thread_binding()
        with T.ws(1):
            T.copy(A[1, :], s[1, :])
        with T.ws(0):
            T.copy(A[0, :], s[0, :])
        if tx < 100:
            for i in T.Parallel(300):
                B[0, i] = s[1, i] + 1
        else:
            for i in T.Parallel(300):
                B[1, i] = s[0, i] * 2
    return B


@tilelang.jit
def async_copies(A):
    """The next rows are on their way while the present ones are used; groups and waits by hand."""
    A: T.Tensor((6, 256), "float32")
    B = T.empty((6, 256), "float32")
    with T.Kernel(1, threads=64):
        s = T.alloc_shared((2, 256), "float32")
        T.async_copy(A[0, :], s[0, :])
        for k in T.serial(6):
            if k < 5:
                T.async_copy(A[k + 1, :], s[(k + 1) % 2, :])
                T.ptx_wait_group(1)
            else:
                T.ptx_wait_group(0)
            T.sync_threads()
            for i in T.Parallel(256):
                B[k, i] = s[k % 2, 255 - i]
            T.sync_threads()
    return B


@tilelang.jit
def barriers_by_hand(A):
    """One warp group fills, the other one reads, a barrier for each direction."""
    A: T.Tensor((4, 128), "float32")
    B = T.empty((4, 128), "float32")
    with T.Kernel(1, threads=256):
        tx = T.get_thread_binding()
        s = T.alloc_shared((128,), "float32")
        bars = T.alloc_barrier([128, 128])
        single = T.alloc_barrier(256)
        for k in T.serial(4):
            with T.ws(0):
                T.barrier_wait(bars[1], (k % 2) ^ 1)
                s[tx] = A[k, tx]
                T.mbarrier_arrive(bars[0])
            with T.ws(1):
                T.mbarrier_wait_parity(bars[0], k % 2)
                B[k, tx - 128] = s[255 - tx]
                T.barrier_arrive(bars[1])
        T.fence_proxy_async()
        T.mbarrier_arrive(single)
        T.mbarrier_wait_parity(single, 0)
        T.pdl_trigger()
    return B


@tilelang.jit
def allreduce(A, x):
    """The older reduction over threads: along x, along y, along both."""
    A: T.Tensor((8, 64), "float32")
    x: T.Tensor((64,), "float32")
    y = T.empty((8,), "float32")
    z = T.empty((2,), "float32")
    with T.Kernel(1, threads=(16, 8)):
        tk = T.get_thread_binding(0)
        tn = T.get_thread_binding(1)
        acc = T.alloc_local((1,), "float32")
        out = T.alloc_local((1,), "float32")
        T.clear(acc)
        for k in T.serial(4):
            acc[0] += A[tn, k * 16 + tk] * x[k * 16 + tk]
        with T.attr(
            T.comm_reducer(lambda p, q: p + q, [T.Cast("float32", 0)]),
            "reduce_scope",
            T.reinterpret(T.uint64(0), dtype="handle"),
        ):
            T.evaluate(T.tvm_thread_allreduce(T.uint32(1), acc[0], True, out[0], tk, dtype="handle"))
        if tk == 0:
            y[tn] = out[0]
        with T.attr(T.comm_reducer(lambda p, q: T.max(p, q), [T.Cast("float32", 0)]), "reduce_scope", 0):
            T.tvm_thread_allreduce(T.uint32(1), out[0], True, acc[0], tn, dtype="handle")
        if tk == 3 and tn == 5:
            z[0] = acc[0]
        with T.attr(T.comm_reducer(lambda p, q: p + q, [T.Cast("float32", 0)]), "reduce_scope", 0):
            T.tvm_thread_allreduce(T.uint32(1), out[0], True, acc[0], tk, tn, dtype="handle")
        if tk == 3 and tn == 5:
            z[1] = acc[0]
    return y, z


@tilelang.jit
def clusters(A):
    """Pairs of blocks that meet."""
    A: T.Tensor((8,), "int32")
    B = T.empty((8,), "int32")
    with T.ClusterKernel(8, cluster_dims=(2, 1, 1), threads=32) as bx:
        rank = T.block_rank_in_cluster()
        tx = T.get_thread_binding()
        T.cluster_sync()
        number = T.get_cluster_id() * 100 + T.get_cluster_ids()[0] * 1000
        number = number + T.get_cluster_size() * 10000 + T.get_cluster_dims()[0] * 100000
        number = number + T.get_cluster_extent() * 1000000 + T.get_cluster_extents()[1] * 10000000
        if tx == 0:
            B[bx] = A[bx] * 10 + rank + number
        T.cluster_arrive_relaxed()
        T.cluster_wait()
    return B
