"""Row-wise kernels: norms, softmax, cross entropy, top-k, quantisation, rotary embedding, activations."""

import math

import tilelang
import tilelang.language as T

EPS = 1e-6
LOG2E = math.log2(math.e)


def next_power_of_2(n: int) -> int:
    power = 1
    while power < n:
        power *= 2
    return power


@tilelang.jit
def layer_norm(X, gamma, beta, eps: float = 1e-5, rows: int = 4):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float16)
    gamma: T.Tensor((N,), T.float16)
    beta: T.Tensor((N,), T.float16)
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        x = T.alloc_fragment((rows, N), T.float32)
        square = T.alloc_fragment((rows, N), T.float32)
        mean = T.alloc_fragment((rows,), T.float32)
        var = T.alloc_fragment((rows,), T.float32)
        T.copy(X[bx * rows, 0], x)
        T.reduce_sum(x, mean, dim=1)
        for i in T.Parallel(rows):
            mean[i] /= N
        for i, j in T.Parallel(rows, N):
            x[i, j] -= mean[i]
        for i, j in T.Parallel(rows, N):
            square[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(square, var, dim=1)
        for i in T.Parallel(rows):
            var[i] = T.rsqrt(var[i] / N + eps)
        for i, j in T.Parallel(rows, N):
            x[i, j] = x[i, j] * var[i] * gamma[j] + beta[j]
        T.copy(x, Y[bx * rows, 0])
    return Y


@tilelang.jit(out_idx=[-1])
def rms_norm(M, N, block_M: int = 1, dtype="bfloat16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=256) as bx:
            x_shared = T.alloc_shared((block_M, N), dtype)
            x_pow = T.alloc_fragment((block_M, N), "float32")
            x = T.alloc_fragment((block_M, N), "float32")
            power_sum = T.alloc_fragment((block_M,), "float32")
            T.copy(X[bx * block_M : (bx + 1) * block_M, :], x_shared)
            T.copy(x_shared, x)
            for i, j in T.Parallel(block_M, N):
                x_pow[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(x_pow, power_sum, dim=1)
            for i in T.Parallel(block_M):
                power_sum[i] = T.rsqrt(power_sum[i] / N + EPS)
            for i, j in T.Parallel(block_M, N):
                x[i, j] = x[i, j] * power_sum[i] * W[j]
            T.copy(x, Y[bx * block_M : (bx + 1) * block_M, :])

    return main


@tilelang.jit(out_idx=[-1])
def rms_norm_split(M, N, block_M=4, block_K=512):
    """The row in parts, twice over: once for the sum, once for the result."""

    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            part = T.alloc_shared((block_M, block_K), "float32")
            local = T.alloc_fragment((block_M, block_K), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            steps = T.ceildiv(N, block_K)
            T.clear(local)
            for k in range(steps):
                T.copy(A[bx * block_M, k * block_K], part)
                for i, j in T.Parallel(block_M, block_K):
                    local[i, j] += part[i, j] * part[i, j]
            T.reduce_sum(local, total, dim=1)
            for i in T.Parallel(block_M):
                total[i] = T.rsqrt(total[i] / N + 1e-12)
            for k in range(steps):
                # the last part first: it is still in the cache
                T.copy(A[bx * block_M, (steps - 1 - k) * block_K], part)
                for i, j in T.Parallel(block_M, block_K):
                    part[i, j] *= total[i]
                T.copy(part, B[bx * block_M, (steps - 1 - k) * block_K])

    return main


@tilelang.jit
def online_softmax(X, block: int = 1024):
    M, N = T.const("M, N")
    dtype = T.float16
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)
    with T.Kernel(M, threads=128) as row:
        tile = T.alloc_fragment((block,), dtype)
        values = T.alloc_fragment((block,), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        lse = T.alloc_fragment((1,), T.float32)
        summed = T.alloc_fragment((1,), T.float32)
        T.fill(lse, -T.infinity(T.float32))
        for n in T.Pipelined(T.ceildiv(N, block)):
            for j in T.Parallel(block):
                tile[j] = T.if_then_else(n * block + j < N, X[row, n * block + j], -T.infinity(dtype))
            T.reduce_max(tile, top, dim=0, clear=True)
            for j in T.Parallel(block):
                values[j] = T.exp2(tile[j] * LOG2E - top[0] * LOG2E)
            T.reduce_sum(values, summed, dim=0, clear=True)
            lse[0] = top[0] * LOG2E + T.log2(T.exp2(lse[0] - top[0] * LOG2E) + summed[0])
        for n in T.Pipelined(T.ceildiv(N, block)):
            for j in T.Parallel(block):
                if n * block + j < N:
                    Y[row, n * block + j] = T.exp2(X[row, n * block + j] * LOG2E - lse[0])
    return Y


@tilelang.jit
def cross_entropy(logits, labels, ignore: int = -100):
    B, V = T.const("B, V")
    logits: T.Tensor((B, V), T.float32)
    labels: T.Tensor((B,), T.int64)
    loss = T.empty((B,), T.float32)
    with T.Kernel(B, threads=256) as b:
        row = T.alloc_fragment((V,), T.float32)
        top = T.alloc_fragment((1,), T.float32)
        total = T.alloc_fragment((1,), T.float32)
        T.copy(logits[b, :], row)
        T.reduce_max(row, top, dim=0)
        for j in T.Parallel(V):
            row[j] = T.exp(row[j] - top[0])
        T.reduce_sum(row, total, dim=0)
        target = labels[b]
        if target != ignore:
            loss[b] = T.log(total[0]) + top[0] - logits[b, target]
        else:
            loss[b] = 0
    return loss


@tilelang.jit(out_idx=[1, 2])
def topk(M, N, k, block_M: int = 64, threads: int = 128):
    @T.prim_func
    def main(
        logits: T.Tensor((M, N), "float32"),
        gates: T.Tensor((M, k), "float32"),
        ids: T.Tensor((M, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            tile = T.alloc_fragment([block_M, N], "float32")
            best = T.alloc_fragment([block_M], "float32")
            index = T.alloc_fragment([block_M, N], "int32")
            which = T.alloc_fragment([block_M], "int32")
            T.copy(logits[bx * block_M, 0], tile)
            for t in T.serial(k):
                T.fill(index, -1)
                T.reduce_max(tile, best, dim=1, clear=True)
                for i, j in T.Parallel(block_M, N):
                    index[i, j] = T.if_then_else(best[i] == tile[i, j], j, index[i, j])
                T.reduce_max(index, which, dim=1, clear=True)
                for i, j in T.Parallel(block_M, N):
                    tile[i, j] = T.if_then_else(which[i] == j, -10000.0, tile[i, j])
                for i in T.Parallel(block_M):
                    gates[bx * block_M + i, t] = best[i]
                    ids[bx * block_M + i, t] = which[i]

    return main


@tilelang.jit
def quantise_rows(X, group: int = 128, fp8_max: float = 448.0):
    """Per-group absmax scales, then int8."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Q = T.empty((M, N), T.int8)
    S = T.empty((M, T.ceildiv(N, group)), T.float32)
    rows = 8
    with T.Kernel(T.ceildiv(M, rows), T.ceildiv(N, group), threads=128) as (bm, bn):
        x = T.alloc_fragment((rows, group), T.float32)
        amax = T.alloc_fragment((rows,), T.float32)
        scale = T.alloc_fragment((rows,), T.float32)
        T.copy(X[bm * rows, bn * group], x)
        T.reduce_absmax(x, amax, dim=1)
        for i in T.Parallel(rows):
            scale[i] = T.max(amax[i], 1e-4) / 127.0
            S[bm * rows + i, bn] = scale[i]
        for i, j in T.Parallel(rows, group):
            x[i, j] = T.clamp(x[i, j] / scale[i], -127.0, 127.0)
        for i, j in T.Parallel(rows, group):
            Q[bm * rows + i, bn * group + j] = T.cast(T.round(x[i, j]), T.int8)
    return Q, S


@tilelang.jit
def rotary(X, cos, sin, interleaved: bool = False):
    S, H, D = T.const("S H D")
    X: T.Tensor((S, H, D), T.float16)
    cos: T.Tensor((S, D // 2), T.float32)
    sin: T.Tensor((S, D // 2), T.float32)
    Y = T.empty((S, H, D), T.float16)
    half = D // 2
    with T.Kernel(H, S, threads=64) as (h, s):
        for i in T.Parallel(half):
            first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
            a = T.cast(X[s, h, first], T.float32)
            b = T.cast(X[s, h, second], T.float32)
            Y[s, h, first] = a * cos[s, i] - b * sin[s, i]
            Y[s, h, second] = a * sin[s, i] + b * cos[s, i]
    return Y


def silu(x):
    return x / (1.0 + T.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + T.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


GATES = {"silu": silu, "gelu": gelu_tanh, "relu": lambda x: T.max(x, 0.0)}


@tilelang.jit
def gated(X, kind: str = "silu", block_M: int = 32, block_N: int = 128):
    M, N2 = T.const("M, N2")
    X: T.Tensor((M, N2), T.float16)
    gate = GATES[kind]
    N = N2 // 2
    Y = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            row, column = by * block_M + i, bx * block_N + j
            if row < M and column < N:
                Y[row, column] = gate(T.cast(X[row, column], T.float32)) * X[row, column + N]
    return Y


@tilelang.jit(out_idx=-1)
def welford(M: int, N: int):
    """Mean and variance in one pass, with variables of each thread."""
    threads = min(next_power_of_2(N), 256)

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), out: T.Tensor((M, 2), "float32")):
        with T.Kernel(M, threads=threads) as row:
            tid = T.get_thread_binding()
            mean = T.alloc_var("float32", init=0.0)
            m2 = T.alloc_var("float32", init=0.0)
            count = T.alloc_var("int32", init=0)
            if tid == 0:
                for j in T.serial(N):
                    count += 1
                    delta = X[row, j] - mean
                    mean += delta / count
                    m2 += delta * (X[row, j] - mean)
                out[row, 0] = mean
                out[row, 1] = m2 / count

    return main


if __name__ == "__main__":
    M, N = 4096, 8192
    kernels = [rms_norm(M, N), rms_norm_split(M, N), welford(M, 100)]
    kernels += [topk(M, 128, k) for k in (2, 6)]
    layer_norm.compile(M=M, N=1024)
