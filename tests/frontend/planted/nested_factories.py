"""A kernel with a planted mistake, in this style: nested factories."""

import tilelang
import tilelang.language as T


def attention(heads, dim, *, block_m=64, block_n=64, **extra):
    def shapes(tag):
        base = {"q": (block_m, dim), "kv": (block_n, dim)}
        return base[tag]

    def inner(causal):
        def innermost(dtype=extra.get("dtype", T.float16)):
            @tilelang.jit(out_idx=[-1])
            def fac(B, S):
                @T.prim_func
                def main(
                    Q: T.Tensor((B, S, heads, dim), dtype),
                    K: T.Tensor((B, S, heads, dim), dtype),
                    O: T.Tensor((B, S, heads, S), dtype),
                ):
                    with T.Kernel(T.ceildiv(S, block_m), heads, B, threads=128) as (bx, by, bz):
                        q = T.alloc_shared(shapes("q"), dtype)
                        k = T.alloc_shared(shapes("kv"), dtype)
                        s = T.alloc_fragment((block_m, block_n), T.float32)
                        T.copy(Q[bz, bx * block_m : (bx + 1) * block_m, by, :], q)
                        for t in T.serial((bx + 1) * block_m // block_n if causal else T.ceildiv(S, block_n)):
                            T.copy(K[bz, t * block_n : (t + 1) * block_n, by, :], k)
                            T.gemm(q, k, s, clear_accum=True)  # wrong
                            T.copy(
                                s,
                                O[bz, bx * block_m : (bx + 1) * block_m, by, t * block_n : (t + 1) * block_n],
                            )

                return main

            return fac

        return innermost

    return inner


kern = attention(8, 128)(causal=True)()(1, 1024)
