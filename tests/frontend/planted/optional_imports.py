"""A kernel with a planted mistake, in this style: optional imports."""

try:
    import tilelang
    import tilelang.language as T

    HAS = True
except ImportError:
    HAS = False
    tilelang = None

try:
    from flash_attn import something
except Exception:
    something = None

BLOCK = 64 if HAS else 0

if HAS:

    @tilelang.jit
    def k(A):
        N = T.const("N")
        A: T.Tensor((N,), T.float32)
        O = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, BLOCK), threads=64) as b:
            f = T.alloc_fragment((BLOCK,), T.float32)
            g = T.alloc_fragment((BLOCK * 2,), T.float32)
            T.copy(A[b * BLOCK], f)
            T.copy(f, g)  # wrong
            T.copy(g[:BLOCK], O[b * BLOCK])
        return O
