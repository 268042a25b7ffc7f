# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis

@T.prim_func
def main(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), C: T.Buffer((4096,), "float32"), D: T.Buffer((4096,), "float32")):
    T.func_attr({"tl.enable_dump_ir": True, "tl.outputs": []})
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 128)
    for r in T.unroll(4):
        A_vec = T.alloc_local((4,))
        A_vec[0:4] = A[T.Ramp(bx * 2048 + r * 512 + tx * 4, 1, 4)]
        B_vec = T.alloc_local((4,))
        B_vec[0:4] = B[T.Ramp(bx * 2048 + r * 512 + tx * 4, 1, 4)]
        C_vec = T.alloc_local((4,))
        for v in T.unroll(4):
            C_vec[v] = A_vec[v] + B_vec[v]
        C[bx * 2048 + r * 512 + tx * 4:bx * 2048 + r * 512 + tx * 4 + 4] = C_vec[T.Ramp(0, 1, 4)]
        A_vec_1 = T.alloc_local((4,))
        A_vec_1[0:4] = A[T.Ramp(bx * 2048 + r * 512 + tx * 4, 1, 4)]
        B_vec_1 = T.alloc_local((4,))
        B_vec_1[0:4] = B[T.Ramp(bx * 2048 + r * 512 + tx * 4, 1, 4)]
        D_vec = T.alloc_local((4,))
        for v in T.unroll(4):
            D_vec[v] = A_vec_1[v] - B_vec_1[v]
        D[bx * 2048 + r * 512 + tx * 4:bx * 2048 + r * 512 + tx * 4 + 4] = D_vec[T.Ramp(0, 1, 4)]